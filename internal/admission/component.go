// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// shared checks what services of a graph and stand-alone components have in common.
func shared(s *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for name, value := range map[string]string{"componentType": s.ComponentType, "subComponentType": s.SubComponentType} {
		for _, problem := range validation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(at.Child(name), value, "is used as a label value: "+problem))
		}
	}
	if s.Replicas != nil && *s.Replicas < 0 {
		errs = append(errs, field.Invalid(at.Child("replicas"), *s.Replicas, "must not be negative"))
	}
	if s.Ingress != nil && s.Ingress.Enabled && s.Ingress.Host == "" {
		errs = append(errs, field.Required(at.Child("ingress", "host"), "needed where the ingress is enabled"))
	}
	for i, v := range s.VolumeMounts {
		if !v.UseAsCompilationCache && v.MountPoint == "" {
			errs = append(errs, field.Required(at.Child("volumeMounts").Index(i).Child("mountPoint"),
				"say where to mount the claim, or set useAsCompilationCache"))
		}
	}
	if m := s.SharedMemory; m != nil && !m.Disabled && m.Size.IsZero() {
		errs = append(errs, field.Required(at.Child("sharedMemory", "size"), "needed unless shared memory is disabled"))
	}
	if s.ComponentType == v1alpha1.ComponentTypeEPP {
		errs = append(errs, endpointPicker(s, at)...)
	}
	return errs
}

// endpointPicker checks what only a component of type epp has.
func endpointPicker(s *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.IsMultinode() {
		errs = append(errs, field.Forbidden(at.Child("multinode"), "an endpoint picker runs on one node"))
	}
	if s.Replicas != nil && *s.Replicas != 1 {
		errs = append(errs, field.Invalid(at.Child("replicas"), *s.Replicas, "an endpoint picker has exactly one replica"))
	}
	config := at.Child("eppConfig")
	switch e := s.EPPConfig; {
	case e == nil || (e.ConfigMapRef == nil && e.Config == nil):
		errs = append(errs, field.Required(config, "an endpoint picker needs config or configMapRef"))
	case e.ConfigMapRef != nil && e.Config != nil:
		errs = append(errs, field.Forbidden(config.Child("config"), "give either config or configMapRef, not both"))
	case e.ConfigMapRef != nil && e.ConfigMapRef.Name == "":
		errs = append(errs, field.Required(config.Child("configMapRef", "name"), "name the ConfigMap"))
	}
	return errs
}
