// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
