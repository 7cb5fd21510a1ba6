// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump makes of the objects of a cluster what a user would have to apply to get them again.
package dump

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// lastApplied holds a manifest that kubectl once applied. Applying again writes it anew.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Objects returns what is worth keeping: objects that somebody wrote, without what the cluster and the operator added to them, in
// an order that depends on their names alone. What another object made comes back with that one, and what is being deleted is not
// wanted any longer.
func Objects(found []*unstructured.Unstructured) []*unstructured.Unstructured {
	var kept []*unstructured.Unstructured
	for _, o := range found {
		if metav1.GetControllerOfNoCopy(o) != nil || o.GetDeletionTimestamp() != nil {
			continue
		}
		kept = append(kept, clean(o))
	}
	slices.SortFunc(kept, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return kept
}

// clean keeps the names, labels and annotations of an object, and what its author wrote below.
func clean(o *unstructured.Unstructured) *unstructured.Unstructured {
	kept := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range o.Object {
		if key != "status" && key != "metadata" {
			kept.Object[key] = value
		}
	}
	kept.SetName(o.GetName())
	kept.SetNamespace(o.GetNamespace())
	if labels := o.GetLabels(); len(labels) > 0 {
		kept.SetLabels(labels)
	}
	annotations := o.GetAnnotations()
	delete(annotations, lastApplied)
	if len(annotations) > 0 {
		kept.SetAnnotations(annotations)
	}
	return kept
}
