// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network renders how a component is reached.
package network

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Service renders the component's own Service. It selects by graph and component: by type alone, two workers of one
// graph would answer for each other.
func Service(c input.Component) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, Namespace: c.Namespace, Labels: serviceLabels(c), Annotations: c.ObjectAnnotations(),
		},
		Spec: corev1.ServiceSpec{Selector: selector(c), Ports: []corev1.ServicePort{port(c)}},
	}
}

func serviceLabels(c input.Component) map[string]string {
	labels := c.ObjectLabels()
	if c.Discovery() != names.DiscoveryKubernetes {
		return labels
	}
	labels[names.LabelDiscoveryBackend] = names.DiscoveryKubernetes
	if !c.IsFrontend() {
		labels[names.LabelDiscoveryEnabled] = names.True
	}
	return labels
}

// selector finds the component's pods and no others.
func selector(c input.Component) map[string]string {
	if c.Graph == "" {
		return map[string]string{names.LabelSelector: c.Name}
	}
	return map[string]string{names.LabelGraph: c.Graph, names.LabelComponent: c.Spec.ServiceName}
}

func port(c input.Component) corev1.ServicePort {
	if c.IsFrontend() {
		return tcp(names.PortHTTP, names.PortHTTPNumber)
	}
	return tcp(names.PortSystem, names.PortSystemNumber)
}

// tcp is a port whose target is the container port of the same name.
func tcp(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromString(name), Protocol: corev1.ProtocolTCP}
}
