// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// shown lets everything through. It is asked about every change that the cache has from now on, and tells those who remember
// what they wrote until it has it.
func shown(store *recent.Store, kind schema.GroupKind) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(obj client.Object) bool {
		store.Shown(recent.KeyOf(kind, obj), obj)
		return true
	})
}

// gone lets everything through. It is asked about every child that the cache no longer has, and tells those who remember what they
// wrote until it has it.
func gone(store *recent.Store, kind schema.GroupKind) predicate.Predicate {
	return predicate.Funcs{DeleteFunc: func(e event.DeleteEvent) bool {
		store.Gone(recent.KeyOf(kind, e.Object), e.Object)
		return true
	}}
}

// specOrMetadataChanged lets through what a user can have meant. Our own status writes change nothing we read.
func specOrMetadataChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectNew.GetDeletionTimestamp() != nil ||
			len(e.ObjectOld.GetOwnerReferences()) != len(e.ObjectNew.GetOwnerReferences()) ||
			!slices.Equal(e.ObjectOld.GetFinalizers(), e.ObjectNew.GetFinalizers()) ||
			!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			!maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
	}}
}

// changed lets through what a user can have meant with something that was seen before; newcomers have a watch of their own.
func changed() predicate.Predicate {
	return predicate.And(specOrMetadataChanged(), predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }})
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

// pausedOrResumed lets through that somebody paused an object, or lets it go on.
func pausedOrResumed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return controllers.IsPaused(e.ObjectOld) != controllers.IsPaused(e.ObjectNew)
		},
	}
}

// respecified lets through new specs, creations and deletions.
func respecified() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() },
	}
}

// cameOrWent lets through creations and deletions.
func cameOrWent() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// servicesChanged lets through what concerns those who scale services of a graph: what the services should be, and how
// many replicas of them there are.
func servicesChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isGraph := e.ObjectOld.(*v1alpha1.DynamoGraphDeployment)
			after, areGraphs := e.ObjectNew.(*v1alpha1.DynamoGraphDeployment)
			return isGraph && areGraphs && (before.UID != after.UID || before.Generation != after.Generation ||
				!equality.Semantic.DeepEqual(before.Status.Services, after.Status.Services))
		},
	}
}

// movedSinceStart lets through changes of spec and metadata, but not what was there at the start.
func movedSinceStart() predicate.Predicate {
	return predicate.And(specOrMetadataChanged(), childChanged())
}

func sameButForVersion(a, b client.Object) bool {
	if a.GetResourceVersion() == b.GetResourceVersion() {
		return true // a resync
	}
	if a.GetGeneration() != b.GetGeneration() {
		return false
	}
	return equality.Semantic.DeepEqual(mutable(a), mutable(b))
}

// mutable returns the object without its resource version, and without its spec where a generation tells whether that changed.
// Everything that it points to is shared with the original, so that comparing copies nothing. Only in an object without a type the
// version is itself in what it points to.
func mutable(obj client.Object) client.Object {
	if untyped, ok := obj.(*unstructured.Unstructured); ok {
		untyped = untyped.DeepCopy()
		untyped.SetResourceVersion("")
		return untyped
	}
	original := reflect.ValueOf(obj).Elem()
	flat := reflect.New(original.Type())
	flat.Elem().Set(original)
	if spec := flat.Elem().FieldByName("Spec"); spec.IsValid() && obj.GetGeneration() > 0 {
		spec.SetZero()
	}
	stripped := flat.Interface().(client.Object)
	stripped.SetResourceVersion("")
	return stripped
}
