// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package observe is the read side: it collects the children of an owner from the informer caches, by index and
// without copies. It cannot write, by type.
package observe

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// byOwner is the name of the index from an owner's UID to what it owns, alone or with others.
const byOwner = "ownerUID"

// Observer reads the children of one kind of owner.
type Observer struct {
	cache  client.Reader
	scheme *runtime.Scheme

	mu    sync.RWMutex
	kinds []schema.GroupVersionKind
}

// NewObserver returns an observer for owners whose children have the given kinds. Index must have been called for each.
func NewObserver(cache client.Reader, scheme *runtime.Scheme, kinds ...schema.GroupVersionKind) *Observer {
	return &Observer{cache: cache, scheme: scheme, kinds: kinds}
}

// Add makes the observer look for children of one more kind. Index must have been called for it.
func (o *Observer) Add(kind schema.GroupVersionKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.kinds, kind) {
		o.kinds = append(slices.Clone(o.kinds), kind)
	}
}

// Remove makes the observer no longer look for children of a kind, because its API is gone.
func (o *Observer) Remove(kind schema.GroupVersionKind) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kinds = slices.DeleteFunc(slices.Clone(o.kinds), func(k schema.GroupVersionKind) bool { return k == kind })
}

func (o *Observer) observed() []schema.GroupVersionKind {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.kinds
}

// Index makes children of a kind findable by their owners.
func Index(ctx context.Context, indexer client.FieldIndexer, child client.Object) error {
	err := indexer.IndexField(ctx, child, byOwner, func(obj client.Object) []string {
		refs := obj.GetOwnerReferences()
		uids := make([]string, 0, len(refs))
		for _, r := range refs {
			uids = append(uids, string(r.UID))
		}
		return uids
	})
	if err != nil {
		return fmt.Errorf("index %T by its owners: %w", child, err)
	}
	return nil
}

// Children returns everything the owner has, and besides it whatever else in the cache has the name of something
// the plan wants: a child that lost its owner reference must be seen to be taken back.
func (o *Observer) Children(ctx context.Context, owner client.Object, plan apply.Plan) (apply.Children, error) {
	children := apply.Children{}
	for _, gvk := range o.observed() {
		if err := o.owned(ctx, owner, gvk, children); err != nil {
			return nil, err
		}
	}
	return children, o.Named(ctx, plan, children)
}

// Named adds whatever else in the cache has the name of something the plan wants.
func (o *Observer) Named(ctx context.Context, plan apply.Plan, into apply.Children) error {
	for _, stage := range plan {
		for _, intent := range stage {
			if err := o.named(ctx, intent.Key, into); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Observer) owned(ctx context.Context, owner client.Object, gvk schema.GroupVersionKind, into apply.Children) error {
	found, err := o.newList(gvk)
	if err != nil {
		return err
	}
	err = o.cache.List(ctx, found, client.InNamespace(owner.GetNamespace()),
		client.MatchingFields{byOwner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list %s of %q: %w", gvk.Kind, owner.GetName(), err)
	}
	return meta.EachListItem(found, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("item of %sList has no metadata", gvk.Kind)
		}
		into[recent.KeyOf(gvk.GroupKind(), obj)] = obj
		return nil
	})
}

// newList makes a list of a kind: typed where the scheme has the type, which is what the caches then hold.
func (o *Observer) newList(gvk schema.GroupVersionKind) (client.ObjectList, error) {
	listKind := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	if !o.scheme.Recognizes(gvk) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(listKind)
		return list, nil
	}
	made, err := o.scheme.New(listKind)
	if err != nil {
		return nil, fmt.Errorf("make a list of %s: %w", gvk.Kind, err)
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("kind %sList is not a list", gvk.Kind)
	}
	return list, nil
}

func (o *Observer) newObject(gvk schema.GroupVersionKind) (client.Object, error) {
	if !o.scheme.Recognizes(gvk) {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		return obj, nil
	}
	made, err := o.scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", gvk.Kind, err)
	}
	obj, ok := made.(client.Object)
	if !ok {
		return nil, fmt.Errorf("kind %s has no metadata", gvk.Kind)
	}
	return obj, nil
}

func (o *Observer) named(ctx context.Context, key recent.Key, into apply.Children) error {
	if into[key] != nil {
		return nil
	}
	for _, gvk := range o.observed() {
		if gvk.GroupKind() != key.GroupKind {
			continue
		}
		obj, err := o.newObject(gvk)
		if err != nil {
			return err
		}
		err = o.cache.Get(ctx, key.NamespacedName, obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		into[key] = obj
		return nil
	}
	return nil
}

// MetadataOfClaim drops everything of a claim but what tells that it exists and whose it is.
func MetadataOfClaim(obj any) (any, error) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return obj, nil
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		Labels: claim.Labels, OwnerReferences: claim.OwnerReferences, DeletionTimestamp: claim.DeletionTimestamp,
	}}, nil
}
