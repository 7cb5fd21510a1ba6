// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
)

func TestTheRulesAreThoseOfTheManifests(t *testing.T) {
	t.Parallel()
	wide, err := rbac.ManagerRole()
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := rbac.RestrictedRole()
	if err != nil {
		t.Fatal(err)
	}
	workloads, err := rbac.WorkloadRoles()
	if err != nil {
		t.Fatal(err)
	}
	everywhere := named(t, renderAs(t, charts.Release{Name: "dynamo-operator", Namespace: "x"}).Objects)
	within := named(t, renderAs(t, charts.Release{
		Name: "dynamo-operator", Namespace: "x", Values: set(t, `dynamo-operator: {namespaceRestriction: {enabled: true}}`),
	}).Objects)
	for _, row := range []struct {
		name      string
		want, got []rbacv1.PolicyRule
	}{
		{"all namespaces", wide.Rules, typed[rbacv1.ClusterRole](t, everywhere, "ClusterRole dynamo-operator-manager-role").Rules},
		{"one namespace", narrow.Rules, typed[rbacv1.Role](t, within, "Role dynamo-operator-manager-role").Rules},
		{"planner", workloads[0].Rules, typed[rbacv1.ClusterRole](t, everywhere, "ClusterRole dynamo-operator-planner").Rules},
		{"endpoint picker", workloads[1].Rules, typed[rbacv1.ClusterRole](t, everywhere, "ClusterRole dynamo-operator-epp").Rules},
		{"planner of one namespace", workloads[0].Rules, typed[rbacv1.Role](t, within, "Role planner-role").Rules},
		{"endpoint picker of one namespace", workloads[1].Rules, typed[rbacv1.Role](t, within, "Role epp-role").Rules},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestTheRoleNamesTheObjectsOfItsRelease(t *testing.T) {
	t.Parallel()
	objects := named(t, render(t, nil).Objects)
	found := map[string]bool{}
	for _, rule := range typed[rbacv1.ClusterRole](t, objects, "ClusterRole "+full+"-manager-role").Rules {
		for _, name := range rule.ResourceNames {
			found[name] = true
		}
	}
	want := map[string]bool{
		full + "-validating": true, full + "-mutating": true, full + "-planner": true, full + "-epp": true,
		"dynamo.nvidia.com": true, "dynamo-operator-namespace-scope": true,
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, kind := range []string{"ValidatingWebhookConfiguration " + full + "-validating", "MutatingWebhookConfiguration " + full + "-mutating"} {
		if objects[kind] == nil {
			t.Errorf("there is no %s", kind)
		}
	}
	for _, w := range typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration "+full+"-validating").Webhooks {
		if s := w.ClientConfig.Service; s.Name != full+"-webhook-service" || s.Namespace != "dynamo-system" || len(w.ClientConfig.CABundle) > 0 {
			t.Errorf("%s is called through %v", w.Name, w.ClientConfig)
		}
	}
}

func TestTheDefinitionsAreThoseOfTheManifestsAndStay(t *testing.T) {
	t.Parallel()
	want, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := charts.Render(definitions, charts.Release{Name: "dynamo-crds", Namespace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	objects := named(t, rendered.Objects)
	if len(objects) != len(want) || len(want) != 7 {
		t.Errorf("%d objects for %d definitions", len(objects), len(want))
	}
	for _, d := range want {
		got := typed[apiextensionsv1.CustomResourceDefinition](t, objects, "CustomResourceDefinition "+d.Name)
		if got.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with its release", d.Name)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.Name, diff)
		}
	}
}

// limit is what a Secret may hold.
const limit = 1 << 20

func TestAReleaseFitsIntoItsSecret(t *testing.T) {
	t.Parallel()
	for chart, values := range map[string]map[string]any{definitions: nil, platform: set(t, everything)} {
		size, err := charts.Size(chart, charts.Release{Name: "dynamo", Namespace: "dynamo-system", Values: values})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("a release of %s takes %d of %d bytes", filepath.Base(chart), size, limit)
		if size >= limit || size < 1<<10 {
			t.Errorf("a release of %s takes %d bytes", chart, size)
		}
	}
}

func TestChartsHaveOneVersion(t *testing.T) {
	t.Parallel()
	versions := map[string]string{}
	for _, chart := range []string{definitions, platform, platform + "/charts/dynamo-operator", platform + "/charts/nats", platform + "/charts/etcd"} {
		meta := file(t, filepath.Join(chart, "Chart.yaml"))
		versions[meta["version"].(string)] = chart
		dependencies, _ := meta["dependencies"].([]any)
		for _, d := range dependencies {
			versions[d.(map[string]any)["version"].(string)] = chart
		}
	}
	if len(versions) != 1 {
		t.Errorf("they have the versions %v", versions)
	}
}

// TestEveryValueIsInTheSchema makes sure that a key of values.yaml is one that the schema knows, and that the schema leaves no
// section open by mistake.
func TestEveryValueIsInTheSchema(t *testing.T) {
	t.Parallel()
	for _, chart := range []string{definitions, platform, platform + "/charts/dynamo-operator", platform + "/charts/nats", platform + "/charts/etcd"} {
		text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		schema := map[string]any{}
		if err := yaml.UnmarshalStrict(text, &schema); err != nil {
			t.Fatal(err)
		}
		inSchema(t, filepath.Base(chart), schema, file(t, filepath.Join(chart, "values.yaml")))
	}
}

// parts are sections that have a schema of their own.
var parts = []string{"platform.dynamo-operator", "platform.nats", "platform.etcd"}

// inSchema looks at a section and those below it. Sections that the schema only describes are set as a whole.
func inSchema(t *testing.T, path string, schema, values map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		return
	}
	if schema["additionalProperties"] != false && !strings.HasSuffix(path, ".global") && !slices.Contains(parts, path) {
		t.Errorf("%s takes any key", path)
	}
	for key, value := range values {
		below, found := properties[key].(map[string]any)
		if !found {
			t.Errorf("%s.%s is not in the schema", path, key)
			continue
		}
		if section, ok := value.(map[string]any); ok {
			inSchema(t, path+"."+key, below, section)
		}
	}
}

func TestEverythingForKustomizeBuilds(t *testing.T) {
	t.Parallel()
	for directory, atLeast := range map[string]int{
		"crd": 7, "rbac": 5, "manager": 7, "webhook": 2, "prometheus": 1, "default": 21, "samples": 6, "rbac/restricted": 8, "manager/restricted": 6,
		"overlays/development": 20, "overlays/production": 21, "overlays/restricted": 14,
	} {
		if objects := build(t, filepath.Join(config, directory)); len(objects) < atLeast {
			t.Errorf("%s makes %d objects", directory, len(objects))
		}
	}
}

func TestDevelopmentWaitsForNoWebhook(t *testing.T) {
	t.Parallel()
	objects := named(t, build(t, filepath.Join(config, "overlays/development")))
	for _, w := range typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration dynamo-operator-validating").Webhooks {
		if *w.FailurePolicy != admissionregistrationv1.Ignore {
			t.Errorf("%s has to answer: add it to failure_policy.yaml", w.Name)
		}
	}
	if objects["PodDisruptionBudget dynamo-operator"] != nil {
		t.Error("one replica has a budget, which keeps a node from being drained")
	}
	effective(t, objects, "dynamo-system")
}

// layer writes a kustomization into a directory of its own and returns that. CONFIG stands for our directory config, and BELOW for
// another layer.
func layer(t *testing.T, below, text string) string {
	t.Helper()
	directory := t.TempDir()
	var pairs []string
	for word, path := range map[string]string{"CONFIG": config, "BELOW": below} {
		absolute, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		relative, err := filepath.Rel(directory, absolute)
		if err != nil {
			t.Fatal(err)
		}
		pairs = append(pairs, word, relative)
	}
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(strings.NewReplacer(pairs...).Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

func TestOnlyCertificatesChangeWithCertManager(t *testing.T) {
	t.Parallel()
	elsewhere := layer(t, "", "namespace: elsewhere\nresources: [CONFIG/default]\n")
	for namespace, pair := range map[string][2]string{
		"dynamo-system": {filepath.Join(config, "default"), layer(t, "", "resources: [CONFIG/default]\ncomponents: [CONFIG/certmanager]\n")},
		"elsewhere":     {elsewhere, layer(t, elsewhere, "resources: [BELOW]\ncomponents: [CONFIG/certmanager]\n")},
	} {
		without, with := named(t, build(t, pair[0])), named(t, build(t, pair[1]))
		ours, theirs := effective(t, with, namespace), effective(t, without, namespace)
		if ours.Webhooks.Certificates.Source != "files" {
			t.Errorf("%s: certificates come from %s", namespace, ours.Webhooks.Certificates.Source)
		}
		ours.Webhooks.Certificates.Source = theirs.Webhooks.Certificates.Source
		if diff := cmp.Diff(theirs.OperatorConfiguration, ours.OperatorConfiguration); diff != "" {
			t.Errorf("%s: configuration (-without +with):\n%s", namespace, diff)
		}
		mounted := false
		for _, m := range manager(t, with).VolumeMounts {
			mounted = mounted || m.MountPath == ours.Webhooks.Certificates.Directory
		}
		if !mounted {
			t.Errorf("%s: nothing is mounted at %s", namespace, ours.Webhooks.Certificates.Directory)
		}
		certified(t, with, namespace)
	}
}

// certified checks that the certificate is made out to the Service that the API server calls, and that its authority is trusted there.
func certified(t *testing.T, objects map[string]*unstructured.Unstructured, namespace string) {
	t.Helper()
	for _, name := range []string{"ValidatingWebhookConfiguration dynamo-operator-validating", "MutatingWebhookConfiguration dynamo-operator-mutating"} {
		if from := objects[name].GetAnnotations()["cert-manager.io/inject-ca-from"]; from != namespace+"/dynamo-operator-serving-cert" {
			t.Errorf("%s has its authority from %q", name, from)
		}
	}
	for name, u := range objects {
		if strings.HasPrefix(u.GetAPIVersion(), "cert-manager.io/") && u.GetNamespace() != namespace {
			t.Errorf("%s is in %q", name, u.GetNamespace())
		}
	}
	webhook := typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, "ValidatingWebhookConfiguration dynamo-operator-validating").Webhooks[0]
	called := webhook.ClientConfig.Service.Name + "." + webhook.ClientConfig.Service.Namespace + ".svc"
	hosts, _, _ := unstructured.NestedStringSlice(objects["Certificate dynamo-operator-serving-cert"].Object, "spec", "dnsNames")
	if webhook.ClientConfig.Service.Namespace != namespace || !slices.Contains(hosts, called) || !slices.Contains(hosts, called+".cluster.local") {
		t.Errorf("the API server calls %s, and the certificate is for %v", called, hosts)
	}
}

func TestSamplesAreOfTheirKinds(t *testing.T) {
	t.Parallel()
	objects := named(t, build(t, filepath.Join(config, "samples")))
	typed[v1alpha1.DynamoGraphDeployment](t, objects, "DynamoGraphDeployment sample")
	typed[v1alpha1.DynamoComponentDeployment](t, objects, "DynamoComponentDeployment sample-worker")
	typed[v1alpha1.DynamoModel](t, objects, "DynamoModel sample")
	typed[v1alpha1.DynamoGraphDeploymentScalingAdapter](t, objects, "DynamoGraphDeploymentScalingAdapter sample-vllmworker")
	typed[v1alpha1.DynamoGraphDeploymentRequest](t, objects, "DynamoGraphDeploymentRequest sample")
	typed[v1alpha1.DynamoCheckpoint](t, objects, "DynamoCheckpoint sample")
}
