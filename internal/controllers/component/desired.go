// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component reconciles DynamoComponentDeployments: spec to a workload and how it is reached, the workload's
// state to the component's status.
package component

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/deployment"
)

// Desired is pure: equal components, surroundings and settings give equal plans.
func Desired(c *v1alpha1.DynamoComponentDeployment, w input.World, s input.Settings, scheme *runtime.Scheme) controllers.Plan {
	if problems := admission.Component(c); len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	in := input.FromDeployment(c, s, nil)
	in.World = w
	stages, problems := render.Component(in)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, c, stages)
}

// Found is the world that a live Deployment's pods were rendered in.
func Found(live *appsv1.Deployment) input.World {
	var world input.World
	if err := json.Unmarshal([]byte(live.Annotations[names.AnnotationSurroundings]), &world); err != nil {
		return input.World{} // nothing was found then, or somebody wrote over it
	}
	return world
}

// Keeps tells whether rendering in the world that was found leaves the live pod template as it is. Then that world is
// kept: a registry secret or account that comes or goes must not roll healthy pods. Where the template changes anyway,
// the pods roll and get what is there now.
func Keeps(c *v1alpha1.DynamoComponentDeployment, live *appsv1.Deployment, s input.Settings) bool {
	in := input.FromDeployment(c, s, nil)
	in.World = Found(live)
	rendered, problems := deployment.Render(in)
	if len(problems) > 0 {
		return false
	}
	same, err := apply.Contained(&rendered[0].Spec.Template, &live.Spec.Template)
	return err == nil && same
}

// servesNobody tells whether a Deployment that should serve has no replica that does. There is nothing to lose then.
func servesNobody(live *appsv1.Deployment) bool {
	return live.Status.AvailableReplicas == 0 && ptr.Deref(live.Spec.Replicas, 1) > 0
}
