// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns specs into objects: pure functions from what a user wrote to what the operator applies.
// Equal inputs give equal outputs; it is safe to call from tests, the command line and the controllers.
package render

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/deployment"
)

// Component returns everything one component needs. A refused workload must not keep its network objects from being
// made, so all of them are one stage. A component without a graph has its own access.
func Component(c input.Component) (Stages, field.ErrorList) {
	deployments, errs := deployment.Render(c)
	if len(errs) > 0 {
		return nil, errs
	}
	var stages Stages
	var main []Object
	if c.Graph == "" && c.Discovery() == names.DiscoveryKubernetes {
		accounts, bindings := access.Discovery(c.Namespace, c.Name)
		stages.add(as(belonging.Owned, accounts...))
		main = as(belonging.Owned, bindings...)
	}
	if c.Graph == "" && c.Is(v1alpha1.ComponentTypePlanner) && c.Settings.ClusterWide && c.Settings.PlannerClusterRole != "" {
		account, binding := access.Account(c.Namespace, names.PlannerAccount, c.Settings.PlannerClusterRole)
		stages.add([]Object{{Object: account, Belonging: belonging.Borrowed}})
		main = append(main, Object{Object: binding, Belonging: belonging.Borrowed})
	}
	for _, d := range deployments {
		main = append(main, Object{Object: d})
	}
	for _, s := range network.Services(c, deployments[0].Spec.Template) {
		main = append(main, Object{Object: s})
	}
	if model := c.ModelName(); model != "" {
		main = append(main, Object{Object: network.ModelService(c.Namespace, model), Belonging: belonging.Shared})
	}
	if ingress := network.Ingress(c); ingress != nil {
		main = append(main, Object{Object: ingress})
	}
	if virtual := network.VirtualService(c); virtual != nil {
		main = append(main, Object{Object: virtual})
	}
	stages.add(main)
	return stages, nil
}
