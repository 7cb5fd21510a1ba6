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
	got, foreign := Objects([]*unstructured.Unstructured{given})
	if diff := cmp.Diff([]*unstructured.Unstructured{want}, got); diff != "" || len(foreign) > 0 {
		t.Errorf("%d of others (-want +got):\n%s", len(foreign), diff)
	}
}

func TestChildrenAndWhatIsBeingDeletedAreLeftOut(t *testing.T) {
	t.Parallel()
	got, foreign := Objects([]*unstructured.Unstructured{
		object(t, `{kind: G, metadata: {name: g, uid: u, deletionTimestamp: "2026-01-01T00:00:00Z"}}`),
		object(t, "{kind: A, metadata: {name: child, ownerReferences: [{kind: G, name: g, uid: u, apiVersion: v, controller: true}]}}"),
		object(t, "{kind: M, metadata: {name: worker, ownerReferences: [{kind: Pod, name: p, uid: p, apiVersion: v1, controller: true}]}}"),
	})
	if len(got)+len(foreign) > 0 {
		t.Errorf("got %v and %v", got, foreign)
	}
}

func TestWhatAControllerOfOthersMadeIsTold(t *testing.T) {
	t.Parallel()
	got, foreign := Objects([]*unstructured.Unstructured{
		object(t, "{kind: G, metadata: {name: b, ownerReferences: [{kind: Platform, name: p, uid: u, apiVersion: example.com/v1, controller: true}]}}"),
		object(t, "{kind: G, metadata: {name: a, ownerReferences: [{kind: Platform, name: p, uid: u, apiVersion: example.com/v1, controller: true}]}}"),
		object(t, "{kind: G, metadata: {name: c, ownerReferences: [{kind: Platform, name: p, uid: u, apiVersion: example.com/v1}]}}"),
	})
	if len(got) != 1 || got[0].GetName() != "c" {
		t.Errorf("kept %v", got)
	}
	if len(foreign) != 2 || foreign[0].GetName() != "a" || foreign[1].GetName() != "b" {
		t.Errorf("told of %v", foreign)
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
	want, _ := Objects(all)
	if diff := cmp.Diff(all, want); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 10 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, _ := Objects(all); cmp.Diff(want, got) != "" {
			diff := cmp.Diff(want, got)
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
