// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

func managedBy(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestTheSpecOfTheReferenceIsInheritedAndNothingElse(t *testing.T) {
	t.Parallel()
	status := managedBy(names.FieldManagerReference, metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:replicas":{}}}`)
	status.Subresource = "status"
	autoscaler := managedBy("autoscaler", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)
	got, err := inherited([]metav1.ManagedFieldsEntry{
		managedBy(names.FieldManagerReference, metav1.ManagedFieldsOperationUpdate,
			`{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:old":{},"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:value":{}}}}}`),
		managedBy(names.FieldManager, metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:list":{"k:{\"name\":\"y\"}":{".":{}}},"f:ours":{}}}`),
		status, autoscaler,
	}, "apps/v1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"f:metadata":{"f:labels":{"f:a":{}}}}`,
		`{"f:spec":{"f:list":{"k:{\"name\":\"x\"}":{".":{},"f:value":{}},"k:{\"name\":\"y\"}":{".":{}}},"f:old":{},"f:ours":{}}}`,
		`{"f:status":{"f:replicas":{}}}`, `{"f:spec":{"f:replicas":{}}}`,
	}
	var texts []string
	for _, m := range got {
		texts = append(texts, m.FieldsV1.GetRawString())
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheSpecOfTheReferenceIsInheritedBeforeWeHaveAppliedAnything(t *testing.T) {
	t.Parallel()
	got, err := inherited([]metav1.ManagedFieldsEntry{
		managedBy(names.FieldManagerReference, metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:old":{}}}`),
	}, "apps/v1")
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.ManagedFieldsEntry{
		managedBy(names.FieldManagerReference, metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:a":{}}}}`),
		managedBy(names.FieldManager, metav1.ManagedFieldsOperationApply, `{"f:spec":{"f:old":{}}}`),
	}
	want[1].APIVersion, want[1].FieldsType = "apps/v1", "FieldsV1"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutFieldsOfTheReferenceNothingIsInherited(t *testing.T) {
	t.Parallel()
	got, err := inherited([]metav1.ManagedFieldsEntry{managedBy("autoscaler", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)}, "apps/v1")
	if err != nil || len(got) != 1 || got[0].FieldsV1.GetRawString() != `{"f:spec":{"f:replicas":{}}}` {
		t.Errorf("got %v: %v", got, err)
	}
}

func TestAnIntentLacksWhatItNoLongerNames(t *testing.T) {
	t.Parallel()
	spec := map[string]any{
		"minReadySeconds": int64(1),
		"template": map[string]any{"containers": []any{map[string]any{
			"name": "main", "env": []any{map[string]any{"name": "A", "value": "1"}}, "ports": []any{map[string]any{"containerPort": int64(80)}},
		}}},
	}
	for name, tc := range map[string]struct {
		applied string
		want    bool
	}{
		"all are there":            {`{"f:minReadySeconds":{},"f:template":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:name":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:value":{}}}}}}}`, false},
		"a number of replicas":     {`{"f:replicas":{}}`, false},
		"a member went":            {`{"f:strategy":{}}`, true},
		"an element went":          {`{"f:template":{"f:containers":{"k:{\"name\":\"main\"}":{"f:env":{"k:{\"name\":\"B\"}":{".":{}}}}}}}`, true},
		"a member of an element":   {`{"f:template":{"f:containers":{"k:{\"name\":\"main\"}":{"f:image":{}}}}}`, true},
		"a key that has a default": {`{"f:template":{"f:containers":{"k:{\"name\":\"main\"}":{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{}}}}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields, err := fieldsOf(managedBy(names.FieldManager, metav1.ManagedFieldsOperationApply, tc.applied))
			if err != nil {
				t.Fatal(err)
			}
			if got := lacks(spec, fields); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNumbersOfReplicasAreNoChangeOfPodsWhereverTheyStand(t *testing.T) {
	t.Parallel()
	got := withoutReplicas(map[string]any{"replicas": int64(1), "cliques": []any{map[string]any{"name": "a", "spec": map[string]any{"replicas": int64(2), "roleName": "a"}}}})
	want := map[string]any{"cliques": []any{map[string]any{"name": "a", "spec": map[string]any{"roleName": "a"}}}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFirstApplyMixesWhatItSetsWithWhatTheReferenceLeft(t *testing.T) {
	t.Parallel()
	theirs := managedBy(names.FieldManagerReference, metav1.ManagedFieldsOperationUpdate, `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:old":{},"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:value":{}}}}}`)
	for name, tc := range map[string]struct {
		ours string
		want bool
	}{
		"the same":             {`{"f:spec":{"f:env":{"k:{\"name\":\"A\"}":{".":{},"f:value":{}}}}}`, false},
		"another label":        {`{"f:metadata":{"f:labels":{"f:b":{}}},"f:spec":{"f:old":{}}}`, false},
		"a number of replicas": {`{"f:spec":{"f:replicas":{}}}`, false},
		"a new element":        {`{"f:spec":{"f:env":{"k:{\"name\":\"B\"}":{".":{},"f:value":{}}}}}`, true},
		"a new member":         {`{"f:spec":{"f:new":{}}}`, true},
	} {
		child := &corev1.Service{}
		child.ManagedFields = []metav1.ManagedFieldsEntry{theirs, managedBy(names.FieldManager, metav1.ManagedFieldsOperationApply, tc.ours)}
		if got, err := mixes(child); err != nil || got {
			t.Errorf("%s: without a mark of the reference: %t, %v", name, got, err)
		}
		child.Annotations = map[string]string{names.AnnotationReferenceHash: "x"}
		if got, err := mixes(child); err != nil || got != tc.want {
			t.Errorf("%s: got %t, %v", name, got, err)
		}
	}
}

func TestAKindWithoutASpecHasNoneThatChanges(t *testing.T) {
	t.Parallel()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	intent, err := Prepare(testScheme(t), testOwner(), account, belonging.Owned)
	if err != nil {
		t.Fatal(err)
	}
	if changes, err := changesSpec(intent, account); changes || err != nil {
		t.Errorf("an account counts as changed, and loses the marks of the reference before its time: %t, %v", changes, err)
	}
}

func TestWhatTheReferenceGaveToOneOwnerIsShared(t *testing.T) {
	t.Parallel()
	desired := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"model": "x"}}}
	intent, err := Prepare(testScheme(t), testOwner(), desired, belonging.Shared)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		want   verdict
	}{
		"as the reference leaves it": {func(*corev1.Service) {}, update},
		"ours as well, but still its": {func(s *corev1.Service) {
			s.Annotations[names.AnnotationAppliedHash], s.Labels = intent.Hash, maps.Clone(intent.labels)
			s.OwnerReferences = append(s.OwnerReferences, metav1.OwnerReference{Name: testOwner().GetName(), UID: testOwner().GetUID()})
		}, update},
		"something of the same name":   {func(s *corev1.Service) { s.Labels["model"] = "y" }, notOurs},
		"its mark taken off, no more":  {func(s *corev1.Service) { s.Annotations = nil }, update},
		"controlled by somebody else":  {func(s *corev1.Service) { s.OwnerReferences[0].APIVersion = "example.com/v1" }, notOurs},
		"of an owner that was deleted": {func(s *corev1.Service) { s.OwnerReferences[0].Name = "c" }, goneFirst},
	} {
		live := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name: "m", UID: "child", Labels: map[string]string{"model": "x"}, Annotations: map[string]string{names.AnnotationReferenceHash: "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "DynamoComponentDeployment", Name: "first", UID: "first", Controller: new(true)}},
		}}
		tc.change(live)
		if got := judge(intent, testOwner(), live, state{}); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
