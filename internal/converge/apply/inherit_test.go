// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	})
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

func TestWithoutFieldsOfOursNothingIsInherited(t *testing.T) {
	t.Parallel()
	got, err := inherited([]metav1.ManagedFieldsEntry{managedBy("autoscaler", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)})
	if err != nil || len(got) != 1 || got[0].FieldsV1.GetRawString() != `{"f:spec":{"f:replicas":{}}}` {
		t.Errorf("got %v: %v", got, err)
	}
}
