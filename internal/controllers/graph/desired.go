// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package graph reconciles DynamoGraphDeployments: spec to components and what they share, components' status to the
// graph's.
package graph

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Desired is pure: equal graphs and settings give equal plans.
func Desired(g *v1alpha1.DynamoGraphDeployment, s input.Settings, scheme *runtime.Scheme) controllers.Plan {
	if problems := admission.Graph(g); len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	stages, problems := render.Graph(g, s)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, g, stages)
}
