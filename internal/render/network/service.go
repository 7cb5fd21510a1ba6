// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network renders how a component is reached.
package network

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Services renders the component's own Service and, while it is being debugged, one for each half of its pods. They
// select by graph and component: by type alone, two workers of one graph would answer for each other.
func Services(c input.Component, pods corev1.PodTemplateSpec) []*corev1.Service {
	everyPod, pod := Selector(c, pods.Labels), pods.Spec
	if c.Spec.IsMultinode() {
		everyPod[names.LabelRole] = names.Leader // only leaders serve
	}
	if !Debugged(c) {
		return []*corev1.Service{service(c, pod, c.Name, everyPod)}
	}
	delete(everyPod, names.LabelSelector)
	production := with(everyPod, names.LabelSelector, c.Name)
	main := production
	if c.Switched(names.AnnotationDebugPodGetsTraffic) {
		main = everyPod
	}
	return []*corev1.Service{
		service(c, pod, c.Name, main),
		service(c, pod, names.ProductionService(c.Name), production),
		service(c, pod, names.DebugWorkload(c.Name), with(everyPod, names.LabelTargetType, names.Debug)),
	}
}

// Debugged tells whether a component has a second workload that takes its traffic. Only one that runs as a Deployment can.
func Debugged(c input.Component) bool {
	return c.Switched(names.AnnotationStealingTrafficDebug) && !c.OnGrove && !c.Spec.IsMultinode()
}

func service(c input.Component, pod corev1.PodSpec, name string, selector map[string]string) *corev1.Service {
	annotations := c.ObjectAnnotations()
	if c.OnGrove {
		annotations = nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: serviceLabels(c), Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{port(c, pod)}},
	}
}

func serviceLabels(c input.Component) map[string]string {
	labels := c.ObjectLabels()
	if c.Discovery() != names.DiscoveryKubernetes {
		return labels
	}
	labels[names.LabelDiscoveryBackend] = names.DiscoveryKubernetes
	if !c.IsFrontend() || c.OnGrove {
		labels[names.LabelDiscoveryEnabled] = names.True
	}
	return labels
}

// Selector finds the component's pods and no others, by the values that their labels have in the end: users may set them.
// Those of a component that stands alone lack the label of a graph, which no selector of a Service can ask for; the name of
// their workload tells them from a graph's that share its Dynamo namespace. Groups have no such label, but instead of it
// roles, so that only the leaders of a service of several nodes and of the same name could be taken for theirs.
func Selector(c input.Component, pods map[string]string) map[string]string {
	keys := []string{names.LabelGraph, names.LabelComponent}
	if c.Graph == "" {
		keys[0] = names.LabelDynamoNamespace
		if !c.Spec.IsMultinode() {
			keys = append(keys, names.LabelSelector)
		}
	}
	want := map[string]string{}
	for _, key := range keys {
		want[key] = pods[key]
	}
	return want
}

func port(c input.Component, pod corev1.PodSpec) corev1.ServicePort {
	switch c.Spec.ComponentType {
	case v1alpha1.ComponentTypeFrontend:
		return tcp(names.PortHTTP, names.PortHTTPNumber, intstr.FromString(names.PortHTTP))
	case v1alpha1.ComponentTypeEPP:
		p := tcp(names.PortGRPC, names.PortGRPCNumber, intstr.FromInt32(names.PortGRPCNumber))
		p.AppProtocol = new("http2") // gateways speak gRPC to a picker only if told so
		return p
	}
	return tcp(names.PortSystem, names.PortSystemNumber, systemTarget(pod))
}

// systemTarget is the container port behind the Service port "system": the one of that name, else the metrics port that
// a planner has instead, else the number.
func systemTarget(pod corev1.PodSpec) intstr.IntOrString {
	for _, name := range []string{names.PortSystem, names.PortMetrics} {
		if hasPort(pod, name) {
			return intstr.FromString(name)
		}
	}
	return intstr.FromInt32(names.PortSystemNumber)
}

func hasPort(pod corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	})
}

func tcp(name string, number int32, target intstr.IntOrString) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: target, Protocol: corev1.ProtocolTCP}
}

func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	out[key] = value
	return out
}

// ModelService renders the headless Service over all pods of a namespace that serve a base model. It is the same for
// every component that serves it.
func ModelService(namespace, model string) *corev1.Service {
	hash := names.ModelHash(model)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: names.ModelService(model), Namespace: namespace,
			Labels:      map[string]string{names.LabelBaseModelHash: hash, names.LabelManagedBy: names.OperatorName},
			Annotations: map[string]string{names.AnnotationBaseModel: model},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{names.LabelBaseModelHash: hash},
			Ports:     []corev1.ServicePort{tcp(names.PortSystem, names.PortSystemNumber, intstr.FromInt32(names.PortSystemNumber))},
		},
	}
}
