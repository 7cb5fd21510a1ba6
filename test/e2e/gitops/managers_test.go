// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// managers are the ways in which others bring a manifest to a cluster.
func managers() map[string][]string {
	return map[string][]string{
		"client-side apply": {"apply", "-f"},
		"server-side apply": {"apply", "--server-side", "--field-manager=argocd", "-f"},
		"replace":           {"replace", "-f"},
		"merge patch":       {"patch", "dgd", "chat", "--type=merge", "--patch-file"},
	}
}

// bring makes the graph what a manifest says, and creates it where the way itself does not.
func bring(t *testing.T, ns string, way []string, text string) {
	t.Helper()
	path := file(t, text)
	_, _, err := harness.Kubectl(t, "--namespace", ns, "get", "dgd", "chat")
	if err != nil && way[0] != "apply" {
		kubectl(t, ns, "create", "-f", path)
		return
	}
	kubectl(t, ns, append(slices.Clone(way), path)...)
}

// foreign are the entries of managed fields that are not the operator's.
func foreign(g *v1alpha1.DynamoGraphDeployment) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(g.ManagedFields), func(m metav1.ManagedFieldsEntry) bool { return m.Manager == names.FieldManager })
}

// unmoved fails if bringing the same manifest again changes anything that its manager can see, or would.
func unmoved(t *testing.T, ns string, way []string, text string) {
	t.Helper()
	before := graph(t, ns)
	var dry v1alpha1.DynamoGraphDeployment
	answer := kubectl(t, ns, append([]string{way[0], "--dry-run=server", "--output=json", "--show-managed-fields"}, append(slices.Clone(way[1:]), file(t, text))...)...)
	if err := json.Unmarshal([]byte(answer), &dry); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec, dry.Spec); diff != "" || dry.Generation != before.Generation {
		t.Errorf("bringing the same again would change generation %d to %d:\n%s", before.Generation, dry.Generation, diff)
	}
	bring(t, ns, way, text)
	after := graph(t, ns)
	if after.Generation != before.Generation {
		t.Errorf("bringing the same again moved the generation from %d to %d", before.Generation, after.Generation)
	}
	if diff := cmp.Diff(foreign(before), foreign(after)); diff != "" {
		t.Errorf("the fields of others (-before +after):\n%s", diff)
	}
}

func TestManagersOfAGraphAndTheOperatorDoNotMeet(t *testing.T) {
	t.Parallel()
	for name, way := range managers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			operator := harness.StartOperator(t, ns)
			since := mark(t)
			now := manifest(first, replicas)
			bring(t, ns, way, now)
			if way[0] != "apply" {
				bring(t, ns, way, now) // from now on the way itself is a manager, not only whoever created the graph
			}
			for range 2 { // while the operator has its hands full
				unmoved(t, ns, way, now)
			}
			harness.AwaitReady(t, ns, "chat")
			settled := graph(t, ns).ResourceVersion
			for range 2 {
				unmoved(t, ns, way, now)
			}
			if is := graph(t, ns).ResourceVersion; is != settled {
				t.Errorf("a graph that is as it should be was written to: version %s, was %s", is, settled)
			}
			was := graph(t, ns).Generation
			next := strings.Replace(manifest(second, replicas), "value: debug", "value: info", 1)
			bring(t, ns, way, next)
			harness.AwaitReady(t, ns, "chat")
			unmoved(t, ns, way, next)
			if is := graph(t, ns).Generation; is != was+1 {
				t.Errorf("one change moved the generation from %d to %d", was, is)
			}
			converged(t, ns)
			if n := writes(t, operator.User, since)["dynamographdeployments"]; n > 0 {
				t.Errorf("the operator wrote to the graph itself %d times", n)
			}
		})
	}
}

// converged fails unless the worker runs what the second manifest says.
func converged(t *testing.T, ns string) {
	t.Helper()
	var d appsv1.Deployment
	read(t, ns, "chat-decode", &d)
	main := d.Spec.Template.Spec.Containers[0]
	level := slices.IndexFunc(main.Env, func(e corev1.EnvVar) bool { return e.Name == "LEVEL" })
	if main.Image != second || level < 0 || main.Env[level].Value != "info" {
		t.Errorf("the worker runs %s with %v", main.Image, main.Env)
	}
	for _, m := range graph(t, ns).ManagedFields {
		if m.Manager == names.FieldManager && m.Subresource != "status" {
			t.Errorf("the operator manages fields of the graph besides its status: %s", m.FieldsV1)
		}
	}
}

// TestChildrenDoNotCarryTheMarksOfWhoAppliedTheGraph because a tool that finds its mark on an object that is in no
// repository deletes it.
func TestChildrenDoNotCarryTheMarksOfWhoAppliedTheGraph(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	kubectl(t, ns, "apply", "-f", file(t, manifest(first, scaled)))
	harness.AwaitReady(t, ns, "chat")
	children := kubectl(t, ns, "get", "dcd,dgdsa,deployments,services,serviceaccounts,roles,rolebindings,replicasets,pods", "--output=json")
	for _, sign := range []string{"app.kubernetes.io/instance", "argocd.argoproj.io", "last-applied-configuration"} {
		if strings.Contains(children, sign) {
			t.Errorf("some child carries %s:\n%s", sign, children)
		}
	}
}
