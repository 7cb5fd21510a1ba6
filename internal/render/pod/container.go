// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

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
	env = MergeEnv(env, c.Spec.Envs)
	main.Env = withEngine(orderEnv(env), engine.Env(c, framework, env))
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
	if strings.TrimSpace(main.Image) == "" {
		errs = append(errs, field.Required(c.Path.Child("extraPodSpec", "mainContainer", "image"),
			"name the image that runs this component"))
	}
	return main, errs
}

// withEngine adds the engine's variables behind all others, or before them where one refers to them.
func withEngine(env, engines []corev1.EnvVar) []corev1.EnvVar {
	refers := func(own corev1.EnvVar) bool {
		return slices.ContainsFunc(env, func(v corev1.EnvVar) bool { return strings.Contains(v.Value, "$("+own.Name+")") })
	}
	if slices.ContainsFunc(engines, refers) {
		return slices.Concat(engines, env)
	}
	return append(env, engines...)
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
