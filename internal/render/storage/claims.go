// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage renders the volume claims of a graph.
package storage

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Claim renders one claim of a graph.
func Claim(namespace string, p v1alpha1.PVC) *corev1.PersistentVolumeClaim {
	class := p.StorageClass
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: *p.Name, Namespace: namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{p.VolumeAccessMode},
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: p.Size}},
		},
	}
}
