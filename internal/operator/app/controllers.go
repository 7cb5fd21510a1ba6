// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/component"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/graph"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/memo"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
)

const (
	// reconcileTimeout ends a pass whose request hangs, so that it does not hold its worker for ever.
	reconcileTimeout = 30 * time.Second

	// firstRetry and lastRetry bound the pauses after errors. A user who fixes what was wrong waits a minute at most.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
)

// kind is a controller: which objects it is for, what they own, and how many passes may run at once.
type kind struct {
	name       string
	primary    client.Object
	owned      []client.Object
	workers    int
	reconciler func(controllers.Tools) reconcile.Reconciler
}

// kinds are all controllers. Workers wait for the API server most of the time, so there are more than cores.
func kinds() []kind {
	return []kind{
		{graph.Name, &v1alpha1.DynamoGraphDeployment{}, graph.Owned(), 8,
			func(t controllers.Tools) reconcile.Reconciler { return &graph.Reconciler{Tools: t} }},
		{component.Name, &v1alpha1.DynamoComponentDeployment{}, component.Owned(), 16,
			func(t controllers.Tools) reconcile.Reconciler { return &component.Reconciler{Tools: t} }},
	}
}

func addControllers(ctx context.Context, mgr manager.Manager, c *config.Config) error {
	shared := newWriters(mgr)
	for _, k := range kinds() {
		if err := add(ctx, mgr, c, shared, k); err != nil {
			return fmt.Errorf("add controller %s: %w", k.name, err)
		}
	}
	return nil
}

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func add(ctx context.Context, mgr manager.Manager, c *config.Config, shared writers, k kind) error {
	b := builder.ControllerManagedBy(mgr).Named(k.name).
		For(k.primary, builder.WithPredicates(specOrMetadataChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: k.workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	var gvks []schema.GroupVersionKind
	for _, child := range k.owned {
		gvk, err := apiutil.GVKForObject(child, mgr.GetScheme())
		if err != nil {
			return err
		}
		gvks = append(gvks, gvk)
		if err := observe.Index(ctx, mgr.GetFieldIndexer(), child); err != nil {
			return err
		}
		b = b.Owns(child, builder.WithPredicates(childChanged()))
	}
	tools := controllers.Tools{
		Cache:    mgr.GetCache(),
		Scheme:   mgr.GetScheme(),
		Observe:  observe.NewObserver(mgr.GetCache(), mgr.GetScheme(), gvks...),
		Apply:    shared.apply,
		Status:   statusio.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("dynamo-operator"), shared.store, clock.RealClock{}),
		Settings: c.Render,
		Clock:    clock.RealClock{},
		Plans:    memo.New[controllers.Plan](),
	}
	return b.Complete(k.reconciler(tools))
}
