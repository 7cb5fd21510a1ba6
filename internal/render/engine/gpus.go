// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// gpus is the number of GPUs of each node, 0 if nothing says it in numbers.
func (n node) gpus() (int, *field.Error) {
	r := n.component.Spec.Resources
	if r == nil {
		r = &v1alpha1.Resources{}
	}
	path := n.component.Path.Child("resources")
	kinds := []corev1.ResourceName{names.GPUResource}
	for _, side := range []struct {
		item *v1alpha1.ResourceItem
		path *field.Path
	}{{r.Limits, path.Child("limits", "gpu")}, {r.Requests, path.Child("requests", "gpu")}} {
		if side.item == nil {
			continue
		}
		if side.item.GPU != "" {
			return wholeNumber(side.item.GPU, side.path)
		}
		kinds = append(kinds, corev1.ResourceName(side.item.GPUType))
	}
	// What stands on the container, or among custom resources, is on the container by now.
	for _, list := range []corev1.ResourceList{n.main.Resources.Limits, n.main.Resources.Requests} {
		for _, kind := range kinds {
			if quantity, ok := list[kind]; ok {
				return wholeNumber(quantity.String(), path.Child("limits", "gpu"))
			}
		}
	}
	return 0, nil
}

func wholeNumber(text string, path *field.Path) (int, *field.Error) {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 || quantity.MilliValue() != quantity.Value()*1000 {
		return 0, field.Invalid(path, text, "must be a whole number: each node has so many GPUs")
	}
	return int(quantity.Value()), nil
}

// gpusFor is the number of GPUs of each node of an engine with so many ranks, 0 for an unknown number. Claims do not say
// how many devices stand behind them, but each rank takes one.
func (n node) gpusFor(ranks int) (int, *field.Error) {
	gpus, err := n.gpus()
	if err != nil || gpus > 0 {
		return gpus, err
	}
	nodes := int(n.group.Nodes)
	switch {
	case len(n.main.Resources.Claims) == 0 || ranks == 0:
		return 0, n.noGPUs()
	case ranks%nodes != 0:
		return 0, field.Invalid(n.commandPath(), ranks, fmt.Sprintf(
			"the parallel sizes make %d ranks, which %d nodes cannot share evenly: change them, or say how many GPUs each node has: resources.limits.gpu",
			ranks, nodes))
	}
	return ranks / nodes, nil
}

func (n node) noGPUs() *field.Error {
	return field.Required(n.component.Path.Child("resources", "limits", "gpu"),
		"say how many GPUs each node has: resources.limits.gpu")
}

// hasDevices tells whether the nodes have devices of any kind, for engines that count them themselves.
func (n node) hasDevices() bool {
	for _, list := range []corev1.ResourceList{n.main.Resources.Limits, n.main.Resources.Requests} {
		for name, quantity := range list {
			if strings.Contains(string(name), "/") && !quantity.IsZero() {
				return true
			}
		}
	}
	return len(n.main.Resources.Claims) > 0
}
