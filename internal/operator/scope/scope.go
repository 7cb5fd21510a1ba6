// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scope settles which operator works in a namespace: one that is restricted to it, or the one of the whole cluster.
//
// The restricted operator holds a Lease of a well-known name in its namespace (Holder), and the cluster-wide one keeps out
// of namespaces with such a Lease (Watcher). Both let passes in through a gate, and count those that are in. The order in
// which one side lets go and the other begins is argued in docs/adr/0008-one-operator-per-namespace.md.
package scope

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// States of a namespace, as they are counted.
const (
	// StateHeld is that of the namespace of a restricted operator that works.
	StateHeld = "held"
	// StateExcluded is that of a namespace the cluster-wide operator keeps out of.
	StateExcluded = "excluded"
)

// straggle is how long a request may still be carried out after its sender gave it up. Nobody is told that a namespace
// is free before that has passed.
const straggle = time.Second

// errNotOurs ends passes in a namespace that belongs to somebody else. They are not repeated: everything is looked at
// when the namespace comes back.
var errNotOurs = errors.New("the namespace belongs to another operator")

// Keeper is a Holder or a Watcher, as controllers see it.
type Keeper interface {
	// Guard lets passes through while this operator may work in their namespace, and ends them when it no longer may.
	Guard(next reconcile.Reconciler) reconcile.Reconciler
	// Source wakes a controller when work may begin in a namespace. What requests returns is everything in it.
	Source(requests func(ctx context.Context, namespace string) []reconcile.Request) source.Source
	// Leases are the namespaces with an operator of their own, and what that means to this one.
	Leases() map[string]string
}

// Selected is how Leases have to be cached: the one of each namespace that matters, and none of the others, which change
// with every heartbeat of a node.
func Selected() cache.ByObject {
	return cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", names.ScopeLease)}
}

// guard admits passes through enter. A pass that is not admitted is dropped, because the bell rings when it would be.
func guard(enter func(ctx context.Context, namespace string) (*pass, error), next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		p, err := enter(ctx, req.Namespace)
		if err != nil || p == nil {
			return reconcile.Result{}, err
		}
		defer p.leave()
		result, err := next.Reconcile(p.ctx, req)
		if errors.Is(context.Cause(p.ctx), errNotOurs) {
			return reconcile.Result{}, nil
		}
		return result, err
	})
}

// bell wakes controllers.
type bell struct {
	mu        sync.Mutex
	listeners []func(namespace string)
}

// Source wakes a controller when work may begin in a namespace. What requests returns is everything in it.
func (b *bell) Source(requests func(ctx context.Context, namespace string) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listeners = append(b.listeners, func(namespace string) {
			for _, r := range requests(ctx, namespace) {
				queue.Add(r)
			}
		})
		return nil
	})
}

func (b *bell) ring(namespace string) {
	b.mu.Lock()
	listeners := b.listeners
	b.mu.Unlock()
	for _, wake := range listeners {
		wake(namespace)
	}
}
