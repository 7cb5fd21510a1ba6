// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// looks are the pauses between looks after a definition changed: the server serves a new API a moment after it has
// accepted its definition, and takes as long to forget one.
var looks = []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

// defaultPoll is how often an operator looks that may not watch definitions, which belong to the whole cluster.
const defaultPoll = 30 * time.Second

// Listener is told what changed before and after the new state counts.
type Listener interface {
	// Came is called when an API is served, before anybody reads it.
	Came(ctx context.Context, api API, kinds []schema.GroupVersionKind) error
	// Gone is called when an API is no longer served, after everybody stopped to read it.
	Gone(ctx context.Context, api API, kinds []schema.GroupVersionKind) error
	// Changed is called when the new state counts.
	Changed(ctx context.Context)
}

// Watch follows which optional APIs are served.
type Watch struct {
	Discovery discovery.ServerResourcesInterface
	// Definitions are where CustomResourceDefinitions are watched, nil to poll instead.
	Definitions cache.Informers
	// Poll is the pause between looks where nothing can be watched, 0 for half a minute.
	Poll     time.Duration
	Listener Listener
	Log      logr.Logger

	served atomic.Pointer[input.Capabilities]
	// unsure tells that the last look did not end as it should, so that no event can be waited for.
	unsure bool
}

// Served are the APIs that can be used now.
func (w *Watch) Served() input.Capabilities {
	if c := w.served.Load(); c != nil {
		return *c
	}
	return input.Capabilities{}
}

// NeedLeaderElection is false: a standby keeps its caches warm, also those of optional APIs.
func (w *Watch) NeedLeaderElection() bool { return false }

// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch

// Start follows until the context ends.
func (w *Watch) Start(ctx context.Context) error {
	trigger := make(chan struct{}, 1)
	if w.Definitions != nil {
		if err := w.follow(ctx, trigger); err != nil {
			return err
		}
		w.look(ctx) // what came or went since the first look
	}
	poll := time.NewTicker(cmp.Or(w.Poll, defaultPoll))
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			if w.Definitions == nil || w.unsure {
				w.look(ctx)
			}
		case <-trigger:
			w.settle(ctx)
		}
	}
}

// follow triggers on every change of a definition that matters.
func (w *Watch) follow(ctx context.Context, trigger chan<- struct{}) error {
	informer, err := w.Definitions.GetInformer(ctx, Definition())
	if err != nil {
		return fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	matters := definitions()
	on := func(obj any) {
		if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if o, ok := obj.(client.Object); ok && matters[o.GetName()] {
			select {
			case trigger <- struct{}{}:
			default: // a look is due already
			}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, atStart bool) {
			if !atStart { // what is there at the start is looked at once for all
				on(obj)
			}
		},
		UpdateFunc: func(_, obj any) { on(obj) },
		DeleteFunc: on,
	})
	return err
}

// Definition is a CustomResourceDefinition without its content.
func Definition() client.Object {
	d := &metav1.PartialObjectMetadata{}
	d.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return d
}

// settle looks until what the server says can be expected not to change any more.
func (w *Watch) settle(ctx context.Context) {
	for _, pause := range looks {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
			w.look(ctx)
		}
	}
}

// look asks once and acts on what changed. What cannot be found out now stays as it was.
func (w *Watch) look(ctx context.Context) {
	was := w.Served()
	is := was
	w.unsure = false
	for _, e := range table() {
		served, err := serves(w.Discovery, e)
		if err != nil {
			w.Log.Error(err, "An optional API could not be looked for", "api", e.api)
			w.unsure = true
			continue
		}
		*e.flag(&is) = served
	}
	if is != was {
		w.become(ctx, was, is)
	}
}

// become moves to a new state: what came is prepared before it counts, what went is dropped after it no longer does.
func (w *Watch) become(ctx context.Context, was, is input.Capabilities) {
	for _, e := range table() {
		if *e.flag(&is) && !*e.flag(&was) {
			if err := w.Listener.Came(ctx, e.api, e.kinds); err != nil {
				w.Log.Error(err, "An API that appeared cannot be used yet", "api", e.api)
				w.unsure = true
				*e.flag(&is) = false
				continue
			}
			w.Log.Info("An optional API is served", "api", e.api)
		}
	}
	w.served.Store(&is)
	for _, e := range table() {
		if *e.flag(&was) && !*e.flag(&is) {
			w.Log.Info("An optional API is no longer served", "api", e.api)
			if err := w.Listener.Gone(ctx, e.api, e.kinds); err != nil {
				w.Log.Error(err, "An API that disappeared is still being watched", "api", e.api)
			}
		}
	}
	w.Listener.Changed(ctx)
}

// Found are the optional APIs that a server has now, in the order of the table.
func Found(server discovery.ServerResourcesInterface) ([]API, error) {
	var found []API
	for _, e := range table() {
		served, err := serves(server, e)
		if err != nil {
			return nil, err
		}
		if served {
			found = append(found, e.api)
		}
	}
	return found, nil
}

// serves tells whether every kind of an API is served.
func serves(server discovery.ServerResourcesInterface, e entry) (bool, error) {
	for _, kind := range e.kinds {
		list, err := server.ServerResourcesForGroupVersion(kind.GroupVersion().String())
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for %s: %w", kind.GroupVersion(), err)
		}
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind }) {
			return false, nil
		}
	}
	return true, nil
}

// Look asks for the first time, before anything is started. It fails where the server does not answer.
func (w *Watch) Look(ctx context.Context) error {
	var is input.Capabilities
	for _, e := range table() {
		served, err := serves(w.Discovery, e)
		if err != nil {
			return err
		}
		*e.flag(&is) = served
	}
	w.become(ctx, input.Capabilities{}, is)
	return nil
}
