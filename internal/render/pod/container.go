// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/overlay"
)

// mainContainer lays the user's container over the defaults of the role and adds what the component's own fields ask for.
func mainContainer(c input.Component, framework string, main corev1.Container) (corev1.Container, field.ErrorList) {
	env := MergeEnv(operatorEnv(c), main.Env)
	if user := userContainer(c); user != nil {
		env = MergeEnv(env, user.Env)
		layContainer(&main, user)
	}
	main.Env = append(orderEnv(MergeEnv(env, c.Spec.Envs)), engine.Env(c, framework, MergeEnv(env, c.Spec.Envs))...)
	if secret := c.Spec.EnvFromSecret; secret != nil && *secret != "" {
		main.EnvFrom = append(main.EnvFrom, corev1.EnvFromSource{
			SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: *secret}},
		})
	}
	if c.Spec.LivenessProbe != nil {
		main.LivenessProbe = c.Spec.LivenessProbe.DeepCopy()
	}
	if c.Spec.ReadinessProbe != nil {
		main.ReadinessProbe = c.Spec.ReadinessProbe.DeepCopy()
	}
	errs := layResources(&main.Resources, c)
	if main.Image == "" {
		errs = append(errs, field.Required(c.Path.Child("extraPodSpec", "mainContainer", "image"),
			"name the image that runs this component"))
	}
	return main, errs
}

func userContainer(c input.Component) *corev1.Container {
	if c.Spec.ExtraPodSpec == nil || c.Spec.ExtraPodSpec.MainContainer == nil {
		return nil
	}
	return c.Spec.ExtraPodSpec.MainContainer.DeepCopy()
}

// layContainer lays the user's container over the defaults. A probe for which the user names a handler replaces the
// default whole: two handlers in one probe make an invalid pod.
func layContainer(main, user *corev1.Container) {
	for _, probes := range []struct{ base, user **corev1.Probe }{
		{&main.LivenessProbe, &user.LivenessProbe},
		{&main.ReadinessProbe, &user.ReadinessProbe},
	} {
		if *probes.user != nil && (*probes.user).ProbeHandler != (corev1.ProbeHandler{}) {
			*probes.base, *probes.user = *probes.user, nil
		}
	}
	if user.StartupProbe != nil {
		main.StartupProbe, user.StartupProbe = user.StartupProbe, nil
	}
	mounts := main.VolumeMounts
	overlay.Onto(main, user)
	main.VolumeMounts = withMounts(mounts, main.VolumeMounts)
}
