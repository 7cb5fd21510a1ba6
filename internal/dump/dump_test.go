// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOnlyWhatItsAuthorWroteIsKept(t *testing.T) {
	t.Parallel()
	given := object(t, `
apiVersion: nvidia.com/v1alpha1
kind: DynamoModel
metadata:
  name: tiny
  namespace: team-a
  uid: 8f0c
  resourceVersion: "12"
  generation: 3
  creationTimestamp: "2026-01-01T00:00:00Z"
  finalizers: [nvidia.com/finalizer]
  labels: {team: a}
  annotations: {note: mine, kubectl.kubernetes.io/last-applied-configuration: "{}"}
  managedFields: [{manager: kubectl}]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: app, uid: 1a2b}]
spec: {modelName: acme/tiny-1b}
status: {readyEndpoints: 2}
`)
	want := object(t, `
apiVersion: nvidia.com/v1alpha1
kind: DynamoModel
metadata:
  name: tiny
  namespace: team-a
  labels: {team: a}
  annotations: {note: mine}
spec: {modelName: acme/tiny-1b}
`)
	if diff := cmp.Diff([]*unstructured.Unstructured{want}, Objects([]*unstructured.Unstructured{given})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChildrenAndWhatIsBeingDeletedAreLeftOut(t *testing.T) {
	t.Parallel()
	got := Objects([]*unstructured.Unstructured{
		object(t, "{kind: A, metadata: {name: child, ownerReferences: [{kind: G, name: g, uid: u, apiVersion: v, controller: true}]}}"),
		object(t, `{kind: A, metadata: {name: going, deletionTimestamp: "2026-01-01T00:00:00Z"}}`),
	})
	if len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

func TestTheOrderDependsOnNamesAlone(t *testing.T) {
	t.Parallel()
	var all []*unstructured.Unstructured
	for _, text := range []string{
		"{kind: A, metadata: {namespace: x, name: b}}", "{kind: A, metadata: {namespace: z, name: a}}",
		"{kind: B, metadata: {namespace: w, name: a}}", "{kind: B, metadata: {namespace: w, name: c}}",
	} {
		all = append(all, object(t, text))
	}
	want := Objects(all)
	if diff := cmp.Diff(all, want); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 10 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if diff := cmp.Diff(want, Objects(all)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
