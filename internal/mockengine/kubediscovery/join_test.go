// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubediscovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

func endpoint(pod, uid, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: pod, UID: types.UID(uid)},
	}
}

func unready(e discoveryv1.Endpoint) discoveryv1.Endpoint {
	e.Conditions.Ready = ptr.To(false)
	return e
}

func sliceOf(name string, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Endpoints: endpoints}
}

func published(pod, owner, data string) v1alpha1.DynamoWorkerMetadata {
	m := v1alpha1.DynamoWorkerMetadata{ObjectMeta: metav1.ObjectMeta{Name: pod}}
	if owner != "" {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: pod, UID: types.UID(owner)}}
	}
	m.Spec.Data = apiextensionsv1.JSON{Raw: []byte(data)}
	return m
}

func TestAWorkerIsThereIfItIsReadyAndPublished(t *testing.T) {
	t.Parallel()
	const anything = `{"endpoints":{},"model_cards":{}}`
	service := endpoint("p", "1", "10.0.0.1")
	service.TargetRef.Kind = "Service"
	nameless := endpoint("p", "1", "10.0.0.1")
	nameless.TargetRef = nil
	homeless := endpoint("p", "1", "10.0.0.1")
	homeless.Addresses = nil
	named := sliceOf("s", endpoint("p", "1", "10.0.0.1"))
	named.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("other"), Port: ptr.To[int32](1)}, {Name: ptr.To("system"), Port: ptr.To[int32](9191)}}
	one := func(e discoveryv1.Endpoint) []discoveryv1.EndpointSlice { return []discoveryv1.EndpointSlice{sliceOf("s", e)} }
	for name, tc := range map[string]struct {
		slices   []discoveryv1.EndpointSlice
		metadata []v1alpha1.DynamoWorkerMetadata
		want     []string
	}{
		"both":                     {one(endpoint("p", "1", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"10.0.0.1:9090"}},
		"an address of version 6":  {one(endpoint("p", "1", "fd00::1")), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"[fd00::1]:9090"}},
		"the port of the slice":    {[]discoveryv1.EndpointSlice{named}, []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"10.0.0.1:9191"}},
		"metadata without owner":   {one(endpoint("p", "1", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("p", "", anything)}, []string{"10.0.0.1:9090"}},
		"an endpoint without uid":  {one(endpoint("p", "", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"10.0.0.1:9090"}},
		"an earlier pod's":         {one(endpoint("p", "2", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, nil},
		"not published":            {one(endpoint("p", "1", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("q", "1", anything)}, nil},
		"not ready":                {one(unready(endpoint("p", "1", "10.0.0.1"))), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, nil},
		"not a pod":                {one(service), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, nil},
		"nothing referred to":      {one(nameless), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, nil},
		"no address":               {one(homeless), []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, nil},
		"data nobody can read":     {one(endpoint("p", "1", "10.0.0.1")), []v1alpha1.DynamoWorkerMetadata{published("p", "1", `{"endpoints":[1]}`)}, nil},
		"in several slices":        {[]discoveryv1.EndpointSlice{sliceOf("b", endpoint("p", "1", "10.0.0.2")), sliceOf("a", endpoint("p", "1", "10.0.0.1"))}, []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"10.0.0.1:9090"}},
		"ready in one of several":  {[]discoveryv1.EndpointSlice{sliceOf("a", unready(endpoint("p", "1", "10.0.0.1"))), sliceOf("b", endpoint("p", "1", "10.0.0.2"))}, []v1alpha1.DynamoWorkerMetadata{published("p", "1", anything)}, []string{"10.0.0.2:9090"}},
	} {
		var got []string
		for _, instance := range Join(tc.slices, tc.metadata) {
			got = append(got, instance.Address)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
