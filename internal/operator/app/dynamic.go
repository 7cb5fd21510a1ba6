// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
)

// fillTimeout bounds the wait for the cache of an API that came.
const fillTimeout = 20 * time.Second

// watched is a kind of an optional API and how its objects lead to a primary: they are its children, or those of a child
// that has its name, or found by a mapping.
type watched struct {
	kind    schema.GroupVersionKind
	through client.Object
	to      func(parts) handler.MapFunc
}

// dynamic adds watches to controllers when an optional API comes, and takes them away when it goes.
type dynamic struct {
	mgr     manager.Manager
	running []*running

	mu      sync.Mutex
	indexed map[schema.GroupVersionKind]bool
}

// running is one controller.
type running struct {
	kind
	parts
	controller.Controller
	observer *observe.Observer

	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// add builds the controller of a kind.
func (d *dynamic) add(ctx context.Context, p parts, k kind) error {
	gvks := make([]schema.GroupVersionKind, 0, len(k.owned))
	for _, child := range k.owned {
		gvk, err := apiutil.GVKForObject(child, d.mgr.GetScheme())
		if err != nil {
			return err
		}
		if err := d.index(ctx, gvk, child); err != nil {
			return err
		}
		gvks = append(gvks, gvk)
	}
	r := &running{kind: k, parts: p, observer: observe.NewObserver(d.mgr.GetCache(), d.mgr.GetScheme(), gvks...)}
	var err error
	if r.Controller, err = build(p, k, source.Func(r.remember), p.tools(r.observer)); err != nil {
		return err
	}
	d.running = append(d.running, r)
	return nil
}

// remember keeps the work queue, which a controller shows to its sources alone.
func (r *running) remember(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	return nil
}

// index makes a kind findable by owner. Two controllers may have children of one kind; it is indexed for both.
func (d *dynamic) index(ctx context.Context, gvk schema.GroupVersionKind, child client.Object) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.indexed[gvk] {
		return nil
	}
	if err := observe.Index(ctx, d.mgr.GetFieldIndexer(), child); err != nil {
		return err
	}
	d.indexed[gvk] = true
	return nil
}

// Came starts the watches of an API. Once the manager runs, it waits until their caches are filled.
func (d *dynamic) Came(ctx context.Context, api apis.API, kinds []schema.GroupVersionKind) error {
	for _, r := range d.running {
		for _, w := range r.optional[api] {
			if err := d.watch(ctx, r, w); err != nil {
				return err
			}
		}
	}
	return d.fill(ctx, kinds)
}

// fill waits for the caches of kinds that are watched. Before the manager runs nobody fills them, and it waits itself.
func (d *dynamic) fill(ctx context.Context, kinds []schema.GroupVersionKind) error {
	select {
	case <-d.mgr.Elected():
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	for _, gvk := range kinds {
		if !d.isWatched(gvk) {
			continue
		}
		object, err := newObject(d.mgr.GetScheme(), gvk)
		if err == nil {
			_, err = d.mgr.GetCache().GetInformer(ctx, object)
		}
		if err != nil {
			return fmt.Errorf("fill the cache of %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

func (d *dynamic) isWatched(gvk schema.GroupVersionKind) bool {
	for _, r := range d.running {
		for _, all := range r.optional {
			for _, w := range all {
				if w.kind == gvk && (w.to == nil || r.settings.ClusterWide) {
					return true
				}
			}
		}
	}
	return false
}

func (d *dynamic) watch(ctx context.Context, r *running, w watched) error {
	object, err := newObject(d.mgr.GetScheme(), w.kind)
	if err != nil {
		return err
	}
	if w.to != nil && !r.settings.ClusterWide {
		return nil // it belongs to the whole cluster, and is read when it is needed
	}
	if w.to != nil {
		return r.Watch(source.Kind(d.mgr.GetCache(), object, handler.EnqueueRequestsFromMapFunc(w.to(r.parts)), cameOrWent()))
	}
	owner := w.through
	if owner == nil {
		owner = r.primary
		if err := d.index(ctx, w.kind, object); err != nil {
			return err
		}
	}
	byOwner := handler.EnqueueRequestForOwner(d.mgr.GetScheme(), d.mgr.GetRESTMapper(), owner)
	if err := r.Watch(source.Kind(d.mgr.GetCache(), object, byOwner, gone(r.store, w.kind.GroupKind()), childChanged())); err != nil {
		return err
	}
	if w.through == nil {
		r.observer.Add(w.kind)
	}
	return nil
}

// Gone ends the watches of an API.
func (d *dynamic) Gone(ctx context.Context, api apis.API, kinds []schema.GroupVersionKind) error {
	for _, r := range d.running {
		for _, w := range r.optional[api] {
			r.observer.Remove(w.kind)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, gvk := range kinds {
		delete(d.indexed, gvk)
		object, err := newObject(d.mgr.GetScheme(), gvk)
		if err == nil {
			err = d.mgr.GetCache().RemoveInformer(ctx, object)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Changed has every object looked at again.
func (d *dynamic) Changed(ctx context.Context) {
	for _, r := range d.running {
		r.mu.Lock()
		queue := r.queue
		r.mu.Unlock()
		if queue == nil {
			continue // not started, and then everything is looked at anyway
		}
		all := r.list()
		if err := d.mgr.GetCache().List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
			d.mgr.GetLogger().Error(err, "Objects were not listed after an API came or went", "controller", r.name)
			continue
		}
		_ = meta.EachListItem(all, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok {
				queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		})
	}
}

// newObject makes an object of a kind: typed where the scheme has the type.
func newObject(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	if scheme.Recognizes(gvk) {
		made, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		if object, ok := made.(client.Object); ok {
			return object, nil
		}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(gvk)
	return object, nil
}
