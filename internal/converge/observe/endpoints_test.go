// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

func pod(name string, restarts int32, addresses ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{names.LabelGraph: "g"}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restarts}, {RestartCount: 1}}
	for _, a := range addresses {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: a})
	}
	return p
}

func behind(address, pod string, change ...func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod)},
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func TestEveryPodIsOneEndpoint(t *testing.T) {
	t.Parallel()
	pods := map[string]*corev1.Pod{
		"a": pod("a", 2, "10.0.0.2", "fd00::2"), "b": pod("b", 0, "10.0.0.1"), "c": pod("c", 0, "fd00::1"),
		"d": pod("d", 0, "10.0.0.4"), "e": pod("e", 0, "10.0.0.5"), "going": pod("going", 0, "10.0.0.7"), "again": pod("again", 0, "10.0.0.8"),
	}
	pods["alone"] = pod("alone", 0, "10.0.1.0")
	pods["alone"].Labels = map[string]string{names.LabelComponent: "alone", names.LabelSelector: "alone"}
	pods["other"] = pod("other", 0, "10.0.1.1")
	pods["other"].Labels = map[string]string{names.LabelComponent: "other"}
	slices := []discoveryv1.EndpointSlice{
		{AddressType: discoveryv1.AddressTypeIPv6, Endpoints: []discoveryv1.Endpoint{behind("fd00::2", "a"), behind("fd00::1", "c")}},
		{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
			behind("10.0.0.2", "a"), behind("10.0.0.1", "b"), behind("10.0.0.1", "b"),
			behind("10.0.0.4", "d", func(e *discoveryv1.Endpoint) { e.Conditions.Ready = new(false) }),
			behind("169.254.169.254", "e"), behind("10.0.1.0", "alone"), behind("10.0.1.1", "other"),
			behind("10.0.0.6", "nobody"),
			behind("10.0.0.7", "going", func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = new(true) }),
			behind("10.0.0.8", "again", func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "uid-before" }),
			behind("10.0.0.9", "x", func(e *discoveryv1.Endpoint) { e.TargetRef = nil }),
			behind("10.0.0.9", "x", func(e *discoveryv1.Endpoint) { e.TargetRef.Kind = "Node" }),
			behind("10.0.0.9", "x", func(e *discoveryv1.Endpoint) { e.Addresses = nil }),
		}},
		{AddressType: discoveryv1.AddressTypeFQDN, Endpoints: []discoveryv1.Endpoint{behind("example.com", "b")}},
	}
	want := []Endpoint{
		{Address: "http://10.0.0.1:9090", PodName: "b", Pod: "uid-b", Restarts: 1, Ready: true},
		{Address: "http://10.0.0.2:9090", PodName: "a", Pod: "uid-a", Restarts: 3, Ready: true},
		{Address: "http://10.0.0.4:9090", PodName: "d", Pod: "uid-d", Restarts: 1},
		{Address: "http://10.0.0.6:9090", PodName: "nobody", Ready: true, Problem: "the pod is not there"},
		{Address: "http://10.0.0.7:9090", PodName: "going", Pod: "uid-going", Restarts: 1, Ready: true, Terminating: true},
		{Address: "http://10.0.0.8:9090", PodName: "again", Pod: "uid-again", Restarts: 1, Ready: true, Problem: "the pod is not there"},
		{Address: "http://10.0.1.0:9090", PodName: "alone", Pod: "uid-alone", Restarts: 1, Ready: true},
		{Address: "http://10.0.1.1:9090", PodName: "other", Pod: "uid-other", Restarts: 1, Ready: true, Problem: "the pod belongs to no graph or component"},
		{Address: "http://169.254.169.254:9090", PodName: "e", Pod: "uid-e", Restarts: 1, Ready: true, Problem: "the address is not one of the pod's"},
		{Address: "http://[fd00::1]:9090", PodName: "c", Pod: "uid-c", Restarts: 1, Ready: true},
	}
	if diff := cmp.Diff(want, foldEndpoints(slices, pods)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
