// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns specs into objects: pure functions from what a user wrote to what the operator applies.
// Equal inputs give equal outputs; it is safe to call from tests, the command line and the controllers.
package render

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/deployment"
)

// Stages are objects in the order in which they are applied. Inside a stage order does not matter.
type Stages [][]client.Object

// Component returns everything one component needs. A refused workload must not keep its network objects from being
// made, so all of them are one stage.
func Component(c input.Component) (Stages, field.ErrorList) {
	workload, errs := deployment.Render(c)
	if len(errs) > 0 {
		return nil, errs
	}
	return Stages{{workload, network.Service(c)}}, nil
}
