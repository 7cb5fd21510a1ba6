// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, admissionregistrationv1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register types: %w", err)
		}
	}
	return scheme, nil
}

// watched are the objects of a Keeper, each by its kind and name. That one of them changed is all that is watched for, so
// no watch holds a key.
func (k *Keeper) watched() map[client.Object]cache.ByObject {
	only := func(name string) fields.Selector { return fields.OneTermEqualSelector(metav1.ObjectNameField, name) }
	all := map[client.Object]cache.ByObject{
		metadata(corev1.SchemeGroupVersion.WithKind("Secret")): {Namespaces: map[string]cache.Config{
			k.options.Secret.Namespace: {FieldSelector: only(k.options.Secret.Name)},
		}},
	}
	if name := k.options.Validating; name != "" {
		kind := admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration")
		all[metadata(kind)] = cache.ByObject{Field: only(name)}
	}
	if name := k.options.Mutating; name != "" {
		kind := admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")
		all[metadata(kind)] = cache.ByObject{Field: only(name)}
	}
	return all
}

func metadata(kind schema.GroupVersionKind) client.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(kind)
	return m
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch,roleName=cluster-wide
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=dynamo-operator-validating,verbs=list;watch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=dynamo-operator-mutating,verbs=list;watch

// follow asks for a pass whenever one of the objects comes, changes or goes. It does not wait for the watches to begin: the
// first leaf needs none of them.
func (k *Keeper) follow(ctx context.Context) error {
	for object := range k.watched() {
		informer, err := k.events.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch for changes of certificates: %w", err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { k.poke() },
			UpdateFunc: func(_, _ any) { k.poke() },
			DeleteFunc: func(any) { k.poke() },
		})
		if err != nil {
			return fmt.Errorf("watch for changes of certificates: %w", err)
		}
	}
	return nil
}
