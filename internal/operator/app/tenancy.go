// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
)

// podVariable identifies the pod that the operator runs in, alone.
const podVariable = "POD_UID"

// territory is where the operator works.
type territory struct {
	// keeper settles who works in a namespace, nil where there is nobody to settle it with.
	keeper scope.Keeper
	// excluded tells whether a namespace has an operator of its own.
	excluded func(namespace string) bool
	// ignored are patterns of namespaces that nobody should look at.
	ignored []string
}

// newTerritory has the operator claim its namespace, or keep out of those that others claim.
func newTerritory(mgr manager.Manager, c *config.Config) (territory, error) {
	t := territory{excluded: func(string) bool { return false }, ignored: c.IgnoredNamespaces}
	log := mgr.GetLogger().WithName("scope")
	if c.RestrictedNamespace == "" {
		watcher := scope.NewWatcher(scope.WatcherOptions{
			Elected: mgr.Elected(), Informers: mgr.GetCache(), Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: clock.RealClock{}, Log: log,
		})
		t.keeper, t.excluded = watcher, watcher.Excluded
		return t, mgr.Add(watcher)
	}
	t.ignored = nil // it was told where to work
	t.excluded = func(namespace string) bool { return namespace != c.RestrictedNamespace }
	if c.NamespaceScope.Disabled {
		return t, nil
	}
	election := ""
	if c.LeaderElection.Enabled {
		election = c.ElectionNamespace(Environment) + "/" + c.LeaderElection.ID
	}
	holder, err := scope.NewHolder(scope.HolderOptions{
		Namespace: c.RestrictedNamespace, Version: c.Version(), Election: election, Pod: Environment(podVariable),
		Timing:    scope.Timing{Duration: c.NamespaceScope.LeaseDuration.Duration, Renew: c.NamespaceScope.RenewInterval.Duration},
		Informers: mgr.GetCache(), Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Clock: clock.RealClock{}, Log: log,
	})
	if err != nil {
		return t, err
	}
	t.keeper = holder
	return t, mgr.Add(holder)
}

// isIgnored tells whether nobody should look at a namespace.
func (t territory) isIgnored(namespace string) bool {
	return slices.ContainsFunc(t.ignored, func(pattern string) bool {
		matches, err := path.Match(pattern, namespace)
		return err == nil && matches
	})
}

// isForeign tells whether a namespace is somebody else's, or nobody's.
func (t territory) isForeign(namespace string) bool {
	return t.isIgnored(namespace) || t.excluded(namespace)
}

// guard lets passes through where this operator works.
func (t territory) guard(next reconcile.Reconciler) reconcile.Reconciler {
	if t.keeper != nil {
		next = t.keeper.Guard(next)
	}
	if len(t.ignored) == 0 {
		return next
	}
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		if t.isIgnored(req.Namespace) {
			return reconcile.Result{}, nil
		}
		return next.Reconcile(ctx, req)
	})
}

// enter does something in a namespace unless it is somebody else's, and for as long as it is not.
func (t territory) enter(ctx context.Context, namespace string, do func(context.Context)) error {
	done := false
	pass := t.guard(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		do(ctx)
		done = true
		return reconcile.Result{}, nil
	}))
	_, err := pass.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace}})
	if err == nil && !done {
		return placement.ErrElsewhere
	}
	return err
}

// sources wake a controller when work may begin in a namespace.
func (t territory) sources(p parts, k kind) []source.Source {
	if t.keeper == nil {
		return nil
	}
	return []source.Source{t.keeper.Source(func(ctx context.Context, namespace string) []reconcile.Request {
		if k.begins != nil {
			k.begins(p, namespace)
		}
		all := k.list()
		if err := p.mgr.GetCache().List(ctx, all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil // a cache that is not there yet; its filling wakes the controller
		}
		var requests []reconcile.Request
		_ = meta.EachListItem(all, func(item runtime.Object) error {
			if o, ok := item.(client.Object); ok {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
			}
			return nil
		})
		return requests
	})}
}

// leases are the namespaces that have an operator of their own.
func (t territory) leases() map[string]string {
	if t.keeper == nil {
		return nil
	}
	return t.keeper.Leases()
}
