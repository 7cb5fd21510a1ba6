// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// roleDefaults is the main container before the user has a say.
func roleDefaults(c input.Component) corev1.Container {
	main := common(c)
	switch {
	case c.IsFrontend():
		frontend(&main)
	case c.IsEngine():
		worker(&main)
	}
	return main
}

func common(c input.Component) corev1.Container {
	env := []corev1.EnvVar{
		{Name: "DYN_COMPONENT", Value: c.Spec.ComponentType},
		{Name: "DYN_NAMESPACE", Value: c.DynamoNamespace()},
		{Name: "DYN_PARENT_DGD_K8S_NAME", Value: c.Parent()},
		{Name: "DYN_PARENT_DGD_K8S_NAMESPACE", Value: c.Namespace},
		fromPod("POD_NAME", "metadata.name"),
		fromPod("POD_NAMESPACE", "metadata.namespace"),
		fromPod("POD_UID", "metadata.uid"),
	}
	if c.Discovery() != names.DiscoveryEtcd {
		env = append(env, corev1.EnvVar{Name: "DYN_DISCOVERY_BACKEND", Value: names.DiscoveryKubernetes})
	}
	return corev1.Container{Name: names.MainContainer, Command: []string{"/bin/sh", "-c"}, Env: env}
}

func fromPod(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: path},
	}}
}

func frontend(main *corev1.Container) {
	port := strconv.Itoa(names.PortHTTPNumber)
	main.Command, main.Args = []string{"python3"}, []string{"-m", "dynamo.frontend"}
	main.Ports = []corev1.ContainerPort{{Name: names.PortHTTP, ContainerPort: names.PortHTTPNumber, Protocol: corev1.ProtocolTCP}}
	main.Env = append(main.Env,
		corev1.EnvVar{Name: "DYNAMO_PORT", Value: port},
		corev1.EnvVar{Name: "DYN_HTTP_PORT", Value: port},
	)
	main.LivenessProbe = &corev1.Probe{
		ProbeHandler:        get("/live", names.PortHTTP),
		InitialDelaySeconds: 15, PeriodSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 3,
	}
	main.ReadinessProbe = &corev1.Probe{
		ProbeHandler:        get("/health", names.PortHTTP),
		InitialDelaySeconds: 10, PeriodSeconds: 10, TimeoutSeconds: 3, FailureThreshold: 3,
	}
}

func worker(main *corev1.Container) {
	main.Ports = []corev1.ContainerPort{{Name: names.PortSystem, ContainerPort: names.PortSystemNumber, Protocol: corev1.ProtocolTCP}}
	main.Env = append(main.Env,
		corev1.EnvVar{Name: "DYN_SYSTEM_ENABLED", Value: names.True},
		corev1.EnvVar{Name: "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS", Value: `["generate"]`},
		corev1.EnvVar{Name: "DYN_SYSTEM_PORT", Value: strconv.Itoa(names.PortSystemNumber)},
		corev1.EnvVar{Name: "DYN_HEALTH_CHECK_ENABLED", Value: names.False},
	)
	main.LivenessProbe = &corev1.Probe{
		ProbeHandler:  get("/live", names.PortSystem),
		PeriodSeconds: 5, TimeoutSeconds: 4, FailureThreshold: 1,
	}
	main.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  get("/health", names.PortSystem),
		PeriodSeconds: 10, TimeoutSeconds: 4, FailureThreshold: 3,
	}
	// Two hours: loading the weights of a large model from cold storage takes that long.
	main.StartupProbe = &corev1.Probe{
		ProbeHandler:  get("/live", names.PortSystem),
		PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 720,
	}
}

func get(path, port string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}}
}
