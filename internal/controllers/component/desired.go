// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component reconciles DynamoComponentDeployments: spec to a workload and how it is reached, the workload's
// state to the component's status.
package component

import (
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Desired is pure: equal components and settings give equal plans.
func Desired(c *v1alpha1.DynamoComponentDeployment, s input.Settings, scheme *runtime.Scheme) controllers.Plan {
	if problems := admission.Component(c); len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	stages, problems := render.Component(input.FromDeployment(c, s, nil))
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, c, stages)
}
