// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// role is what a component gets before the user has a say.
type role struct {
	pod       corev1.PodSpec
	container corev1.Container
}

func roleDefaults(c input.Component) role {
	r := role{container: common(c), pod: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](defaultGracePeriod),
	}}
	switch c.Spec.ComponentType {
	case v1alpha1.ComponentTypeFrontend:
		frontend(&r.container)
	case v1alpha1.ComponentTypeWorker, v1alpha1.ComponentTypePrefill, v1alpha1.ComponentTypeDecode:
		worker(&r.container)
	case v1alpha1.ComponentTypePlanner:
		planner(&r)
	case v1alpha1.ComponentTypeEPP:
		endpointPicker(&r, c)
	}
	return r
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
	number := strconv.Itoa(names.PortHTTPNumber)
	main.Command, main.Args = []string{"python3"}, []string{"-m", "dynamo.frontend"}
	main.Ports = []corev1.ContainerPort{port(names.PortHTTP, names.PortHTTPNumber)}
	main.Env = append(main.Env,
		corev1.EnvVar{Name: "DYNAMO_PORT", Value: number},
		corev1.EnvVar{Name: "DYN_HTTP_PORT", Value: number},
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
	main.Ports = []corev1.ContainerPort{port(names.PortSystem, names.PortSystemNumber)}
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

func planner(r *role) {
	r.pod.ServiceAccountName = names.PlannerAccount
	r.container.Ports = []corev1.ContainerPort{port(names.PortMetrics, names.PortPlannerMetricsNumber)}
	r.container.Env = append(r.container.Env,
		corev1.EnvVar{Name: "PLANNER_PROMETHEUS_PORT", Value: strconv.Itoa(names.PortPlannerMetricsNumber)})
}

func port(name string, number int32) corev1.ContainerPort {
	return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
}

func get(path, port string) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(port)}}
}
