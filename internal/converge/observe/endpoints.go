// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// byBaseModel is the name of the index from the hash of a base model to the models on it. It is the contract's.
const byBaseModel = ".spec.baseModelNameHash"

// FoldSlice reduces an EndpointSlice to who is behind which address, and whether they serve.
func FoldSlice(obj any) (any, error) {
	s, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return obj, nil
	}
	kept := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Name, Namespace: s.Namespace, UID: s.UID, ResourceVersion: s.ResourceVersion, DeletionTimestamp: s.DeletionTimestamp,
			Labels: only(s.Labels, names.LabelBaseModelHash),
		},
		AddressType: s.AddressType,
	}
	if service, ok := s.Labels[discoveryv1.LabelServiceName]; ok && kept.Labels != nil {
		kept.Labels[discoveryv1.LabelServiceName] = service
	}
	for _, e := range s.Endpoints {
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, TargetRef: e.TargetRef})
	}
	return kept, nil
}

// IndexModels makes models findable by their base model.
func IndexModels(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.DynamoModel{}, byBaseModel, func(obj client.Object) []string {
		if m, ok := obj.(*v1alpha1.DynamoModel); ok {
			return []string{names.ModelHash(m.Spec.BaseModelName)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index models by their base model: %w", err)
	}
	return nil
}

// ModelsOn returns the models of a namespace on the base model with a hash. They are the cache's own and must not be changed.
func ModelsOn(ctx context.Context, cache client.Reader, namespace, hash string) ([]v1alpha1.DynamoModel, error) {
	var found v1alpha1.DynamoModelList
	err := cache.List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{byBaseModel: hash}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list models on the base model with hash %s: %w", hash, err)
	}
	return found.Items, nil
}

// Endpoint is a pod that serves a base model.
type Endpoint struct {
	// Address is the URL of its system port.
	Address  string
	PodName  string
	Pod      types.UID
	Restarts int32
	// Ready and Terminating are what the cluster says of it.
	Ready, Terminating bool
	// Problem is why it cannot be called whatever it is, empty if it can.
	Problem string
}

// Endpoints finds pods that serve base models.
type Endpoints struct{ Cache client.Reader }

// Of returns the endpoints of a base model in the order of their addresses, and how many Services they are behind.
func (e Endpoints) Of(ctx context.Context, namespace, baseModel string) ([]Endpoint, int, error) {
	var found discoveryv1.EndpointSliceList
	err := e.Cache.List(ctx, &found, client.InNamespace(namespace),
		client.MatchingLabels{names.LabelBaseModelHash: names.ModelHash(baseModel)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, 0, fmt.Errorf("list EndpointSlices of base model %q: %w", baseModel, err)
	}
	pods := map[string]*corev1.Pod{}
	for _, s := range found.Items {
		for _, endpoint := range s.Endpoints {
			name := podOf(endpoint)
			if name == "" || pods[name] != nil {
				continue
			}
			pod := &corev1.Pod{}
			switch err := e.Cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); {
			case err == nil:
				pods[name] = pod
			case !apierrors.IsNotFound(err):
				return nil, 0, fmt.Errorf("read pod %q: %w", name, err)
			}
		}
	}
	return foldEndpoints(found.Items, pods), countServices(found.Items), nil
}

// Pods are the names of all pods that were made to serve a base model.
func (e Endpoints) Pods(ctx context.Context, namespace, baseModel string) (map[string]bool, error) {
	var found corev1.PodList
	err := e.Cache.List(ctx, &found, client.InNamespace(namespace),
		client.MatchingLabels{names.LabelBaseModelHash: names.ModelHash(baseModel)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods of base model %q: %w", baseModel, err)
	}
	all := make(map[string]bool, len(found.Items))
	for _, pod := range found.Items {
		all[pod.Name] = true
	}
	return all, nil
}

func podOf(e discoveryv1.Endpoint) string {
	if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || len(e.Addresses) == 0 {
		return ""
	}
	return e.TargetRef.Name
}

func countServices(all []discoveryv1.EndpointSlice) int {
	services := map[string]bool{}
	for _, s := range all {
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
			services[name] = true
		}
	}
	return len(services)
}

// foldEndpoints makes one endpoint of every pod, however many addresses it has, and however many Services it is behind.
// EndpointSlices are written by more people than pods are, so only an address that the pod itself has is called: nobody
// sends the operator anywhere else.
func foldEndpoints(all []discoveryv1.EndpointSlice, pods map[string]*corev1.Pod) []Endpoint {
	best := map[string]Endpoint{}
	for _, s := range all {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, e := range s.Endpoints {
			name := podOf(e)
			if name == "" {
				continue
			}
			next := endpointOf(e, name, pods[name])
			if was, ok := best[name]; !ok || prefer(next, was) < 0 {
				best[name] = next
			}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.PodName, b.PodName))
	})
}

// prefer orders what several EndpointSlices say of one pod: what can be called first, then what stays, what is ready, and what
// has an address of the fourth version.
func prefer(a, b Endpoint) int {
	return cmp.Or(cmp.Compare(number(a.Problem != ""), number(b.Problem != "")), cmp.Compare(number(a.Terminating), number(b.Terminating)),
		cmp.Compare(number(b.Ready), number(a.Ready)), cmp.Compare(number(isSixth(a)), number(isSixth(b))), cmp.Compare(a.Address, b.Address))
}

func isSixth(e Endpoint) bool { return strings.HasPrefix(e.Address, "http://[") }

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func endpointOf(e discoveryv1.Endpoint, name string, pod *corev1.Pod) Endpoint {
	at := Endpoint{
		Address: "http://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(names.PortSystemNumber)), PodName: name,
		Ready: ptr.Deref(e.Conditions.Ready, true), Terminating: ptr.Deref(e.Conditions.Terminating, false),
	}
	switch {
	case pod == nil || e.TargetRef.UID != "" && e.TargetRef.UID != pod.UID:
		at.Problem = "the pod is not there"
	case !isOurs(pod):
		at.Problem = "the pod belongs to no graph or component"
	case !hasAddress(pod, e.Addresses[0]):
		at.Problem = "the address is not one of the pod's"
	}
	if pod != nil {
		at.Pod = pod.UID
		at.Terminating = at.Terminating || pod.DeletionTimestamp != nil
		for _, c := range pod.Status.ContainerStatuses {
			at.Restarts += c.RestartCount
		}
	}
	return at
}

// isOurs tells whether a pod was made for a graph, or for a component that belongs to none.
func isOurs(pod *corev1.Pod) bool {
	return pod.Labels[names.LabelGraph] != "" || pod.Labels[names.LabelComponent] != "" && pod.Labels[names.LabelSelector] != ""
}

func hasAddress(pod *corev1.Pod, address string) bool {
	return slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == address })
}
