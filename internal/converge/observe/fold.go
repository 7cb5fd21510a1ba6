// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FoldClique drops the pod template of a PodClique: it is that of our own PodCliqueSet.
func FoldClique(obj any) (any, error) {
	clique, ok := obj.(*grovev1alpha1.PodClique)
	if !ok {
		return obj, nil
	}
	folded := clique.DeepCopy()
	folded.ManagedFields, folded.Spec.PodSpec = nil, corev1.PodSpec{}
	return folded, nil
}

// NameAlone drops everything of an object but what tells that it exists and changed.
func NameAlone(obj any) (any, error) {
	o, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation,
	}}, nil
}

// Lean drops what nobody reads of an object, and lets equal texts in it share their memory: the ten children of a graph carry the
// same labels, and so do those of all others but for a few values. Annotations hold what differs.
func Lean(obj any) (any, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil // a tombstone
	}
	o.SetManagedFields(nil)
	o.SetNamespace(shared(o.GetNamespace()))
	for key, value := range o.GetLabels() {
		o.GetLabels()[shared(key)] = shared(value)
	}
	for key, value := range o.GetAnnotations() {
		o.GetAnnotations()[shared(key)] = value
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].APIVersion, owners[i].Kind = shared(owners[i].APIVersion), shared(owners[i].Kind)
		owners[i].Name, owners[i].UID = shared(owners[i].Name), types.UID(shared(string(owners[i].UID)))
	}
	shareTexts(obj)
	return obj, nil
}
