// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dump makes of the objects of a cluster what a user would have to apply to get them again.
package dump

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// lastApplied holds a manifest that kubectl once applied. Applying again writes it anew.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Objects returns what is worth keeping: objects that somebody wrote, without what the cluster and the operator added to them, in
// an order that depends on their names alone. What another of them made comes back with that one, what a pod said about itself comes
// back with the pod, and what is being deleted is not wanted any longer.
//
// What somebody else's controller made is returned apart: it comes back only if that one does, which the user has to see to.
func Objects(found []*unstructured.Unstructured) (kept, foreign []*unstructured.Unstructured) {
	ours := map[types.UID]bool{}
	for _, o := range found {
		ours[o.GetUID()] = true
	}
	for _, o := range found {
		controller := metav1.GetControllerOfNoCopy(o)
		switch {
		case o.GetDeletionTimestamp() != nil:
		case controller == nil:
			kept = append(kept, clean(o))
		case !ours[controller.UID] && !isPod(controller):
			foreign = append(foreign, o)
		}
	}
	slices.SortFunc(kept, byName)
	slices.SortFunc(foreign, byName)
	return kept, foreign
}

func isPod(r *metav1.OwnerReference) bool { return r.APIVersion == "v1" && r.Kind == "Pod" }

func byName(a, b *unstructured.Unstructured) int {
	return cmp.Or(cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
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
