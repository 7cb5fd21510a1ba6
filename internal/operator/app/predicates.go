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
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	}}
}

// childChanged lets through deletions and every update that changed more than the version. A child's creation is our
// own doing, and on a start its owner is looked at anyway.
func childChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
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
