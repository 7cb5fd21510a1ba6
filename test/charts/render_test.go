// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

// variants are the presets and what else is rendered in many ways.
func variants(t *testing.T) map[string]map[string]any {
	t.Helper()
	all := presets(t)
	all["everything"] = set(t, everything)
	all["restricted"] = set(t, `dynamo-operator: {namespaceRestriction: {enabled: true}}`)
	all["elsewhere"] = set(t, `
dynamo-operator:
  namespaceRestriction: {enabled: true, targetNamespace: team-b}
  controllerManager: {networkPolicy: {enabled: true}, leaderElection: {id: another}}
  webhook: {certificateSecret: {external: true}, caBundle: QUJD}`)
	all["issuer"] = set(t, `dynamo-operator: {webhook: {certManager: {enabled: true, issuerRef: {name: company, kind: ClusterIssuer}}}}`)
	all["recreate"] = set(t, `dynamo-operator: {controllerManager: {strategy: {type: Recreate}, priorityClassName: high}}`)
	all["operator alone"] = set(t, `{nats: {enabled: false}, etcd: {enabled: false}, dynamo-operator: {webhook: {enabled: false}}}`)
	all["without operator"] = set(t, `dynamo-operator: {enabled: false}`)
	return all
}

func TestRenderingTwiceGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	for name, values := range variants(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := render(t, values)
			for range 5 {
				if diff := cmp.Diff(first.Files, render(t, values).Files); diff != "" {
					t.Fatalf("(-once +again):\n%s", diff)
				}
			}
		})
	}
}

func TestEveryVariantPassesAStrictLint(t *testing.T) {
	t.Parallel()
	if err := charts.Lint(definitions, nil); err != nil {
		t.Error(err)
	}
	for name, values := range variants(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := charts.Lint(platform, values); err != nil {
				t.Error(err)
			}
		})
	}
}

// foreign are the kinds that Kubernetes does not have itself.
var foreign = regexp.MustCompile(`^(cert-manager\.io|monitoring\.coreos\.com|scheduling\.run\.ai)/`)

func TestEveryObjectIsOneOfItsKind(t *testing.T) {
	t.Parallel()
	for name, values := range variants(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ofTheirKinds(t, name, named(t, render(t, values).Objects))
		})
	}
}

// ofTheirKinds checks that objects have no member that their types do not have, as far as these are Kubernetes' own.
func ofTheirKinds(t *testing.T, values string, objects map[string]*unstructured.Unstructured) {
	t.Helper()
	for name, u := range objects {
		if foreign.MatchString(u.GetAPIVersion()) {
			continue
		}
		into, err := clientgoscheme.Scheme.New(u.GroupVersionKind())
		if err != nil {
			t.Errorf("%s: %s: %v", values, name, err)
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
			t.Errorf("%s: %s: %v", values, name, err)
		}
	}
}

func TestEveryNamespacedObjectSaysWhereItGoes(t *testing.T) {
	t.Parallel()
	everywhere := regexp.MustCompile(`^(ClusterRole|ClusterRoleBinding|ValidatingWebhookConfiguration|MutatingWebhookConfiguration|Queue) `)
	for variant, values := range variants(t) {
		for name, u := range named(t, render(t, values).Objects) {
			want := "dynamo-system"
			if everywhere.MatchString(name) {
				want = ""
			}
			if ns := u.GetNamespace(); ns != want && (variant != "elsewhere" || ns != "team-b") {
				t.Errorf("%s: %s is in %q", variant, name, ns)
			}
		}
	}
}

// TestNothingDependsOnTheClusterOrTheTime holds for templates of all charts: what they make has to be the same wherever it is made.
func TestNothingDependsOnTheClusterOrTheTime(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`\blookup\b|helm\.sh/hook|\.Capabilities|\brand[A-Z]|\bgen[A-Z]|\buuidv4\b|\bnow\b|\bderivePassword\b|\bgetHostByName\b|\bhtpasswd\b|\.Release\.(Revision|Is)`)
	action := regexp.MustCompile(`(?s){{.*?}}`)
	comment := regexp.MustCompile(`(?s){{-?\s*/\*.*?\*/\s*-?}}`)
	err := filepath.WalkDir("../../charts", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(path, "/templates/") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text := comment.ReplaceAllString(string(content), "")
		if strings.Contains(text, "helm.sh/hook") {
			t.Errorf("%s has a hook", path)
		}
		for _, found := range action.FindAllString(text, -1) {
			if word := forbidden.FindString(found); word != "" {
				t.Errorf("%s uses %s: %s", path, word, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNotesAnswerWhatTheChartDoesNotInstall(t *testing.T) {
	t.Parallel()
	notes := render(t, set(t, `{grove: {enabled: true}, kai-scheduler: {enabled: true}}`)).Notes
	for _, want := range []string{
		"oci://ghcr.io/nvidia/grove", "oci://ghcr.io/nvidia/kai-scheduler", "kai.createQueues=true",
		"kubectl -n dynamo-system rollout status deployment/dynamo-platform-dynamo-operator-controller-manager",
		"kubectl -n default create --dry-run=server", "dynamo_operator_certificate_expiry_timestamp_seconds",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not tell of %q:\n%s", want, notes)
		}
	}
	for name, want := range map[string]string{
		`dynamo-operator: {namespaceRestriction: {enabled: true}}`:                                      "Webhooks are off",
		`nats: {enabled: false}`:                                                                        "Pods are told of no NATS",
		`kai: {createQueues: true}`:                                                                     "--take-ownership",
		`dynamo-operator: {webhook: {certManager: {enabled: true}}}`:                                    "kubectl -n dynamo-system get certificates",
		`dynamo-operator: {webhook: {certificateSecret: {external: true, name: ours}, caBundle: QUJD}}`: "kubectl -n dynamo-system get secret ours",
		`dynamo-operator: {nameOverride: manager}`:                                                      "deployment/dynamo-platform-manager-controller-manager",
		`dynamo-operator: {fullnameOverride: other}`:                                                    "deployment/other-controller-manager",
		`dynamo-operator: {controllerManager: {manager: {image: {tag: 1.2.3}}}}`:                        "The operator 1.2.3 works",
	} {
		if notes := render(t, set(t, name)).Notes; !strings.Contains(notes, want) {
			t.Errorf("%s: the notes do not say %q:\n%s", name, want, notes)
		}
	}
	if notes := render(t, nil).Notes; strings.Contains(notes, "no NATS") || strings.Contains(notes, "off") {
		t.Errorf("the notes worry without a reason:\n%s", notes)
	}
}

func TestQueuesArePlainObjects(t *testing.T) {
	t.Parallel()
	if names := named(t, render(t, nil).Objects); names["Queue dynamo"] != nil {
		t.Error("there are queues by default, for whose kind there may be no definition")
	}
	objects := named(t, render(t, set(t, `kai: {createQueues: true}`)).Objects)
	free := map[string]any{"quota": int64(-1), "limit": int64(-1), "overQuotaWeight": int64(1)}
	resources := map[string]any{"cpu": free, "gpu": free, "memory": free}
	for name, want := range map[string]map[string]any{
		"Queue dynamo-default": {"resources": resources}, "Queue dynamo": {"resources": resources, "parentQueue": "dynamo-default"},
	} {
		u := objects[name]
		// Pods wait in them, whatever becomes of the release.
		if u == nil || u.GetAnnotations()["helm.sh/resource-policy"] != "keep" || u.GetAPIVersion() != "scheduling.run.ai/v2" {
			t.Fatalf("%s is %v", name, u)
		}
		if diff := cmp.Diff(want, u.Object["spec"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
