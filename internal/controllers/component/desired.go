// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component reconciles DynamoComponentDeployments: spec to a workload and how it is reached, the workload's
// state to the component's status.
package component

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
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

// Settled tells whether a component runs well in its latest generation.
func Settled(c *v1alpha1.DynamoComponentDeployment, live *appsv1.Deployment) bool {
	return c.Status.ObservedGeneration == c.Generation && whyNotReady(live) == ""
}

// Kept is the world as it was when the live pods were rendered.
func Kept(c *v1alpha1.DynamoComponentDeployment, live *appsv1.Deployment) input.World {
	pod := live.Spec.Template.Spec
	world := input.World{Account: pod.ServiceAccountName}
	for _, s := range pod.ImagePullSecrets {
		world.PullSecrets = append(world.PullSecrets, s.Name)
	}
	if user := c.Spec.ExtraPodSpec; user != nil && user.PodSpec != nil {
		world.PullSecrets = slices.DeleteFunc(world.PullSecrets, func(name string) bool {
			return slices.Contains(user.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
		})
	}
	return world
}
