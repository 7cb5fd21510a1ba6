// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"crypto/tls"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// serve puts the process behind the Services that select its labels.
func (p *Pod) serve() {
	p.t.Helper()
	services := &corev1.ServiceList{}
	if err := harness.Client(p.t).List(p.t.Context(), services, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	for _, s := range services.Items {
		if len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.labels)) {
			continue
		}
		p.Services = append(p.Services, s.Name)
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: s.Name + "-" + p.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{p.ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},

			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, at := range s.Spec.Ports {
			number, ok := p.ports[at.TargetPort.StrVal]
			if !ok {
				p.t.Errorf("Service %s leads to port %s, which the container does not have", s.Name, at.TargetPort.String())
			}
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &at.Name, Port: &number, Protocol: &at.Protocol})
		}
		if err := harness.Client(p.t).Create(p.t.Context(), slice); err != nil {
			p.t.Fatal(err)
		}
	}
}

// answers tells whether the API server can reach the webhooks of a pod that is behind their Service.
func (p *Pod) answers() error {
	if p.webhooks == "" {
		return nil
	}
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(p.t.Context(), "tcp", p.webhooks)
	if err != nil {
		return fmt.Errorf("it is behind its Services, and does not answer: %w", err)
	}
	return connection.Close()
}

// leave takes the process from behind its Services.
func (p *Pod) leave() error {
	behind := &discoveryv1.EndpointSliceList{}
	if err := harness.Client(p.t).List(p.t.Context(), behind, client.InNamespace(p.namespace)); err != nil {
		return fmt.Errorf("list endpoints: %w", err)
	}
	for i := range behind.Items {
		if !strings.HasSuffix(behind.Items[i].Name, "-"+p.Name) {
			continue
		}
		// A page that is followed may have deleted it.
		if err := harness.Client(p.t).Delete(p.t.Context(), &behind.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take %s away: %w", behind.Items[i].Name, err)
		}
	}
	return nil
}
