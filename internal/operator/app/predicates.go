// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// specOrMetadataChanged lets through what a user can have meant. Our own status writes change nothing we read.
func specOrMetadataChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectNew.GetDeletionTimestamp() != nil ||
			len(e.ObjectOld.GetOwnerReferences()) != len(e.ObjectNew.GetOwnerReferences()) ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	}}
}

// childChanged lets through everything but updates that changed the version alone, and what was there at the start,
// when all owners are looked at anyway. A creation counts: after a watch that was cut, it may be the first we hear of
// a child that is long ready.
func childChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool { return !sameButForVersion(e.ObjectOld, e.ObjectNew) },
	}
}

// cameOrWent lets through creations and deletions.
func cameOrWent() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

func sameButForVersion(a, b client.Object) bool {
	if a.GetResourceVersion() == b.GetResourceVersion() {
		return true // a resync
	}
	if a.GetGeneration() != b.GetGeneration() {
		return false
	}
	x, y := a.DeepCopyObject().(client.Object), b.DeepCopyObject().(client.Object)
	x.SetResourceVersion("")
	y.SetResourceVersion("")
	return equality.Semantic.DeepEqual(x, y)
}
