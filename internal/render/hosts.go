// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
)

// Hosts are the names under which the services of a graph are published, each with the service that has it.
func Hosts(g *v1alpha1.DynamoGraphDeployment, s input.Settings) map[string]string {
	hosts := map[string]string{}
	byDefault := s.IngressClass != "" || s.IstioGateway != ""
	for _, service := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		spec := g.Spec.Services[service]
		if spec == nil || (spec.Ingress == nil && (!byDefault || spec.ComponentType != v1alpha1.ComponentTypeFrontend)) {
			continue // this is asked for every graph and mostly true
		}
		dcd, _ := ComponentOf(g, service, input.Graph{Settings: s}, field.NewPath("spec", "services").Key(service))
		if dcd == nil || dcd.Spec.Ingress == nil {
			continue
		}
		if c := input.FromDeployment(dcd, s, nil); network.Ingress(c) != nil || network.VirtualService(c) != nil {
			hosts[network.Host(dcd.Spec.Ingress)] = service
		}
	}
	return hosts
}
