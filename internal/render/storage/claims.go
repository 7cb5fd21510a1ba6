// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage renders the volume claims of a graph.
package storage

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// modes are how a volume may be used by several nodes.
var modes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod,
}

// Unsound returns what every API server would refuse of a claim.
func Unsound(p v1alpha1.PVC, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsDNS1123Subdomain(*p.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), *p.Name, problem))
	}
	if p.StorageClass != "" {
		for _, problem := range validation.IsDNS1123Subdomain(p.StorageClass) {
			errs = append(errs, field.Invalid(at.Child("storageClass"), p.StorageClass, problem))
		}
	}
	if p.Size.Sign() <= 0 {
		errs = append(errs, field.Invalid(at.Child("size"), p.Size.String(), "must be more than nothing"))
	}
	if !slices.Contains(modes, p.VolumeAccessMode) {
		errs = append(errs, field.NotSupported(at.Child("volumeAccessMode"), p.VolumeAccessMode, modes))
	}
	return errs
}
