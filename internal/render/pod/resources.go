// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// layResources lays the component's resources over those of its container, resource by resource.
func layResources(into *corev1.ResourceRequirements, c input.Component) field.ErrorList {
	r := c.Spec.Resources
	if r == nil {
		return nil
	}
	path := c.Path.Child("resources")
	var errs field.ErrorList
	into.Limits, errs = amounts(into.Limits, r.Limits, path.Child("limits"), true)
	// The API server takes a GPU request only where it equals the limit, so a request is needed only without one.
	_, limited := into.Limits[gpuName(r.Requests)]
	requests, more := amounts(into.Requests, r.Requests, path.Child("requests"), !limited)
	into.Requests = requests
	into.Claims = append(into.Claims, r.Claims...)
	return append(errs, more...)
}

// amounts lays the quantities of one item over a list. Empty texts say nothing, except for custom resources.
func amounts(list corev1.ResourceList, item *v1alpha1.ResourceItem, path *field.Path, gpu bool) (corev1.ResourceList, field.ErrorList) {
	if item == nil {
		return list, nil
	}
	var errs field.ErrorList
	out := list.DeepCopy()
	set := func(name, amount string, at *field.Path) {
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			errs = append(errs, field.Invalid(at, amount, `must be a quantity such as "2", "500m" or "16Gi"`))
			return
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[corev1.ResourceName(name)] = quantity
	}
	if item.CPU != "" {
		set(string(corev1.ResourceCPU), item.CPU, path.Child("cpu"))
	}
	if item.Memory != "" {
		set(string(corev1.ResourceMemory), item.Memory, path.Child("memory"))
	}
	if item.GPU != "" && gpu {
		set(string(gpuName(item)), item.GPU, path.Child("gpu"))
	}
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		set(name, item.Custom[name], path.Child("custom").Key(name))
	}
	return out, errs
}

// gpuName is the resource that stands for an item's GPUs.
func gpuName(item *v1alpha1.ResourceItem) corev1.ResourceName {
	if item == nil || item.GPUType == "" {
		return names.GPUResource
	}
	return corev1.ResourceName(item.GPUType)
}
