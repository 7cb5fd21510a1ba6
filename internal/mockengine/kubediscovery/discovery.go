// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubediscovery finds and publishes simulated workers through the Kubernetes API, by the contract of the operator: a
// worker is there if its pod is ready in an EndpointSlice with the discovery labels and a DynamoWorkerMetadata with the name
// of the pod exists. It needs no other rights than those of the account that a graph's pods run under.
package kubediscovery

import (
	"context"
	"encoding/json"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// fieldManager owns what a worker publishes.
const fieldManager = "dynamo-worker"

// Discovery finds and publishes workers in one namespace.
type Discovery struct {
	config    *rest.Config
	scheme    *runtime.Scheme
	namespace string
}

// New returns discovery in one namespace.
func New(config *rest.Config, namespace string) (*Discovery, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{discoveryv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return &Discovery{config: config, scheme: scheme, namespace: namespace}, nil
}

// Watch implements mockengine.Discovery.
func (d *Discovery) Watch(ctx context.Context, report func([]mockengine.Instance)) error {
	discoverable := labels.SelectorFromSet(labels.Set{
		names.LabelDiscoveryBackend: names.DiscoveryKubernetes, names.LabelDiscoveryEnabled: names.True,
	})
	objects, err := cache.New(d.config, cache.Options{
		Scheme:            d.scheme,
		DefaultNamespaces: map[string]cache.Config{d.namespace: {}},
		ByObject:          map[client.Object]cache.ByObject{&discoveryv1.EndpointSlice{}: {Label: discoverable}},
	})
	if err != nil {
		return fmt.Errorf("prepare to watch workers: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	defer func() { <-ended }()
	defer cancel()
	changed := make(chan struct{}, 1)
	for _, kind := range []client.Object{&discoveryv1.EndpointSlice{}, &v1alpha1.DynamoWorkerMetadata{}} {
		if err := nudge(ctx, objects, kind, changed); err != nil {
			return err
		}
	}
	if !objects.WaitForCacheSync(ctx) {
		return nil // told to end
	}
	for {
		instances, err := d.find(ctx, objects)
		if err != nil {
			return err
		}
		report(instances)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// nudge has changes of a kind noted. Those that come while nobody looks count as one.
func nudge(ctx context.Context, objects cache.Cache, kind client.Object, changed chan<- struct{}) error {
	informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	note := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() },
	})
	if err != nil {
		return fmt.Errorf("watch %T: %w", kind, err)
	}
	return nil
}

func (d *Discovery) find(ctx context.Context, objects client.Reader) ([]mockengine.Instance, error) {
	var slices discoveryv1.EndpointSliceList
	if err := objects.List(ctx, &slices, client.InNamespace(d.namespace)); err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	var metadata v1alpha1.DynamoWorkerMetadataList
	if err := objects.List(ctx, &metadata, client.InNamespace(d.namespace)); err != nil {
		return nil, fmt.Errorf("list DynamoWorkerMetadata: %w", err)
	}
	return Join(slices.Items, metadata.Items), nil
}

// Publisher returns where the worker in a pod makes itself known. Without a uid the object has no owner and stays until it is
// withdrawn.
func (d *Discovery) Publisher(pod string, uid types.UID) (mockengine.Publisher, error) {
	api, err := client.New(d.config, client.Options{Scheme: d.scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &podPublisher{api: api, namespace: d.namespace, pod: pod, uid: uid}, nil
}

type podPublisher struct {
	api            client.Client
	namespace, pod string
	uid            types.UID
}

// Publish applies the whole object. Forced, because a predecessor of the same name may have been another program.
func (p *podPublisher) Publish(ctx context.Context, m mockengine.Metadata) error {
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode the metadata of pod %s: %w", p.pod, err)
	}
	var data map[string]any
	if err := utiljson.Unmarshal(text, &data); err != nil { // keeps all digits of an instance's number
		return fmt.Errorf("encode the metadata of pod %s: %w", p.pod, err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"data": data}}}
	obj.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DynamoWorkerMetadata"))
	obj.SetNamespace(p.namespace)
	obj.SetName(p.pod)
	if p.uid != "" {
		controller := true
		obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: podKind, Name: p.pod, UID: p.uid, Controller: &controller}})
	}
	err = p.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(fieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply DynamoWorkerMetadata %s/%s: %w", p.namespace, p.pod, err)
	}
	return nil
}

// Withdraw deletes the object.
func (p *podPublisher) Withdraw(ctx context.Context) error {
	obj := &v1alpha1.DynamoWorkerMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.pod}}
	if err := p.api.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete DynamoWorkerMetadata %s/%s: %w", p.namespace, p.pod, err)
	}
	return nil
}
