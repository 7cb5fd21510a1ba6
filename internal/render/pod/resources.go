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
	into.Limits, errs = amounts(into.Limits, r.Limits, path.Child("limits"), gpuName(r.Limits))
	var requested corev1.ResourceName
	if r.Limits == nil || r.Limits.GPU == "" {
		requested = gpuName(r.Requests, r.Limits)
	}
	if _, limited := into.Limits[requested]; limited {
		requested = "" // the container, or a custom amount, has the limit already, which is a request, too
	}
	requests, more := amounts(into.Requests, r.Requests, path.Child("requests"), requested)
	into.Requests = requests
	if amount, ok := requests[requested]; ok && r.Requests != nil && r.Requests.GPU != "" {
		// The API server takes no request for a device without an equal limit.
		into.Limits = into.Limits.DeepCopy()
		if into.Limits == nil {
			into.Limits = corev1.ResourceList{}
		}
		into.Limits[requested] = amount
	}
	into.Claims = append(into.Claims, r.Claims...)
	return append(errs, more...)
}

// amounts lays the quantities of one item over a list. Empty texts say nothing, except for custom resources. Gpu is the
// resource that stands for the item's GPUs, empty where they are not to be laid.
func amounts(list corev1.ResourceList, item *v1alpha1.ResourceItem, path *field.Path, gpu corev1.ResourceName) (corev1.ResourceList, field.ErrorList) {
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
	if item.GPU != "" && gpu != "" {
		set(string(gpu), item.GPU, path.Child("gpu"))
	}
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		set(name, item.Custom[name], path.Child("custom").Key(name))
	}
	return out, errs
}

// gpuName is the resource that stands for GPUs: the type that the first of the items names that names one.
func gpuName(items ...*v1alpha1.ResourceItem) corev1.ResourceName {
	for _, item := range items {
		if item != nil && item.GPUType != "" {
			return corev1.ResourceName(item.GPUType)
		}
	}
	return names.GPUResource
}
