// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

func graphWith(generation, observed int64, ready metav1.ConditionStatus, message string) *v1alpha1.DynamoGraphDeployment {
	graph := &v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g", Generation: generation}}
	graph.Status.ObservedGeneration = observed
	if ready != "" {
		graph.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Message: message}}
	}
	return graph
}

func TestReadinessIsAboutTheSpecThatWasApplied(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		graph *v1alpha1.DynamoGraphDeployment
		want  bool
	}{
		"no status":            {graph: graphWith(1, 0, "", "")},
		"not ready":            {graph: graphWith(1, 1, metav1.ConditionFalse, "")},
		"ready":                {graph: graphWith(2, 2, metav1.ConditionTrue, ""), want: true},
		"ready, but before":    {graph: graphWith(2, 1, metav1.ConditionTrue, "")},
		"ready, not observing": {graph: graphWith(2, 0, metav1.ConditionTrue, ""), want: true},
	} {
		if got := isReady(tc.graph); got != tc.want {
			t.Errorf("%s: ready %t, want %t", name, got, tc.want)
		}
	}
}

func TestNarrationNamesMessageAndReplicas(t *testing.T) {
	t.Parallel()
	three, one := int32(3), int32(1)
	graph := graphWith(1, 1, metav1.ConditionFalse, "decode not ready")
	graph.Status.Services = map[string]v1alpha1.ServiceReplicaStatus{
		"web":    {Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: &one, AvailableReplicas: &three},
		"decode": {Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: &one},
		"gang":   {Replicas: 4, UpdatedReplicas: 2},
	}
	want := "not ready: decode not ready (decode 1/2, gang 2/4, web 3/3)"
	if diff := cmp.Diff(want, narrate(graph)); diff != "" {
		t.Errorf("narration (-want +got):\n%s", diff)
	}
	if got := narrate(graphWith(1, 0, "", "")); got != "not looked at by the operator yet" {
		t.Errorf("narration of an unseen graph: %q", got)
	}
}

// object makes an object whose UID is its name.
func object(kind, name, owner string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetKind(kind)
	o.SetName(name)
	o.SetUID(types.UID(name))
	if owner != "" {
		controls := true
		o.SetOwnerReferences([]metav1.OwnerReference{
			{Kind: "Other", Name: "other", UID: "other"},
			{Kind: "Owner", Name: owner, UID: types.UID(owner), Controller: &controls},
		})
	}
	return o
}

func TestTreeFollowsControllersAndIsSorted(t *testing.T) {
	t.Parallel()
	root := object("DynamoGraphDeployment", "g", "")
	pod := object("Pod", "p", "rs")
	pod.Object["status"] = map[string]any{"phase": "Running"}
	pod.Object["spec"] = map[string]any{"nodeName": "sim-0"}
	deployment := object("Deployment", "d", "g")
	deployment.Object["spec"] = map[string]any{"replicas": int64(2)}
	deployment.Object["status"] = map[string]any{"readyReplicas": int64(1)}
	component := object("DynamoComponentDeployment", "c", "g")
	component.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}}
	objects := []*unstructured.Unstructured{
		root, object("Service", "s", "g"), deployment, object("ReplicaSet", "rs", "d"), pod, component,
		object("ConfigMap", "stranger", ""), object("ConfigMap", "elsewhere", "other"),
	}
	var out bytes.Buffer
	writeTree(&out, root, groupByOwner(objects))
	want := strings.Join([]string{
		"DynamoGraphDeployment g",
		"|-- Deployment d  1/2 ready",
		"|   `-- ReplicaSet rs  0/0 ready",
		"|       `-- Pod p  Running sim-0",
		"|-- DynamoComponentDeployment c  not ready",
		"`-- Service s",
		"",
	}, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestTreeOfObjectsThatOwnEachOtherEnds(t *testing.T) {
	t.Parallel()
	a, b := object("ConfigMap", "a", "b"), object("ConfigMap", "b", "a")
	var out bytes.Buffer
	writeTree(&out, a, groupByOwner([]*unstructured.Unstructured{a, b}))
	if diff := cmp.Diff("ConfigMap a\n`-- ConfigMap b\n    `-- ConfigMap a\n", out.String()); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestManifestWithoutAGraphIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "m.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readManifest(file); err == nil || !strings.Contains(err.Error(), "DynamoGraphDeployment") {
		t.Errorf("error is %v, want one that says what is missing", err)
	}
}
