// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubediscovery

import (
	"cmp"
	"encoding/json"
	"net"
	"slices"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// podKind is the kind that endpoints refer to and that owns metadata.
const podKind = "Pod"

// Join finds the workers that can be used: those that are ready in an EndpointSlice and have published themselves. A pod that
// is in several slices counts once. What cannot be read counts as not published. The result is sorted by name.
func Join(endpointSlices []discoveryv1.EndpointSlice, metadata []v1alpha1.DynamoWorkerMetadata) []mockengine.Instance {
	published := make(map[string]*v1alpha1.DynamoWorkerMetadata, len(metadata))
	for i := range metadata {
		published[metadata[i].Name] = &metadata[i]
	}
	endpointSlices = slices.Clone(endpointSlices)
	slices.SortFunc(endpointSlices, func(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	found := map[string]bool{}
	var instances []mockengine.Instance
	for _, slice := range endpointSlices {
		for _, endpoint := range slice.Endpoints {
			if !usable(endpoint) || found[endpoint.TargetRef.Name] {
				continue
			}
			m := published[endpoint.TargetRef.Name]
			if m == nil || !belongs(m, endpoint.TargetRef.UID) {
				continue
			}
			instance := mockengine.Instance{
				Name: m.Name, Address: net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(systemPort(slice))),
			}
			if json.Unmarshal(m.Spec.Data.Raw, &instance.Metadata) != nil {
				continue
			}
			found[m.Name] = true
			instances = append(instances, instance)
		}
	}
	slices.SortFunc(instances, func(a, b mockengine.Instance) int { return cmp.Compare(a.Name, b.Name) })
	return instances
}

// usable tells whether an endpoint is a pod that takes requests. By the API, one that does not say is ready.
func usable(e discoveryv1.Endpoint) bool {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	return ready && len(e.Addresses) > 0 && e.TargetRef != nil && e.TargetRef.Kind == podKind
}

// belongs tells whether metadata is that of a pod, and not of an earlier one of the same name whose metadata is about to go.
func belongs(m *v1alpha1.DynamoWorkerMetadata, pod types.UID) bool {
	owned := false
	for _, owner := range m.OwnerReferences {
		if owner.Kind != podKind {
			continue
		}
		owned = true
		if owner.UID == pod {
			return true
		}
	}
	return !owned || pod == ""
}

// systemPort is where the workers of a slice listen.
func systemPort(slice discoveryv1.EndpointSlice) int {
	for _, port := range slice.Ports {
		if port.Name != nil && *port.Name == names.PortSystem && port.Port != nil {
			return int(*port.Port)
		}
	}
	return names.PortSystemNumber
}
