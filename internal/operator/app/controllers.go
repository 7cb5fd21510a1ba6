// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
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
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
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
	optional   []schema.GroupVersionKind
	workers    int
	reconciler func(controllers.Tools, manager.Manager) reconcile.Reconciler
	// also are objects that concern a primary without being its children.
	also map[client.Object]func(manager.Manager) handler.MapFunc
}

// kinds are all controllers. Workers wait for the API server most of the time, so there are more than cores.
func kinds() []kind {
	return []kind{
		{
			name: graph.Name, primary: &v1alpha1.DynamoGraphDeployment{}, workers: 8,
			owned: graph.Owned(), optional: graph.Optional(),
			also: map[client.Object]func(manager.Manager) handler.MapFunc{&corev1.PersistentVolumeClaim{}: graphsOfClaim},
			reconciler: func(t controllers.Tools, _ manager.Manager) reconcile.Reconciler {
				return &graph.Reconciler{Tools: t}
			},
		},
		{
			name: component.Name, primary: &v1alpha1.DynamoComponentDeployment{}, workers: 16,
			owned: component.Owned(), optional: component.Optional(),
			also: map[client.Object]func(manager.Manager) handler.MapFunc{&corev1.Secret{}: componentsOfSecret},
			reconciler: func(t controllers.Tools, mgr manager.Manager) reconcile.Reconciler {
				return &component.Reconciler{Tools: t, Surroundings: observe.Surroundings{
					Cache: mgr.GetCache(), API: mgr.GetAPIReader(), Settings: t.Settings,
				}}
			},
		},
	}
}

func graphsOfClaim(mgr manager.Manager) handler.MapFunc {
	return func(ctx context.Context, claim client.Object) []reconcile.Request {
		var graphs v1alpha1.DynamoGraphDeploymentList
		if err := mgr.GetCache().List(ctx, &graphs, client.InNamespace(claim.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			mgr.GetLogger().Error(err, "Graphs were not listed", "claim", claim.GetName())
			return nil
		}
		return graph.WaitingFor(graphs.Items, claim.GetName())
	}
}

func componentsOfSecret(mgr manager.Manager) handler.MapFunc {
	return func(ctx context.Context, secret client.Object) []reconcile.Request {
		var components v1alpha1.DynamoComponentDeploymentList
		if err := mgr.GetCache().List(ctx, &components, client.InNamespace(secret.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
			mgr.GetLogger().Error(err, "Components were not listed", "secret", secret.GetName())
			return nil
		}
		return component.WaitingForSecrets(components.Items)
	}
}

func addControllers(ctx context.Context, mgr manager.Manager, c *config.Config) error {
	shared := newWriters(mgr)
	settings := c.Settings(os.Getenv)
	indexed := map[schema.GroupVersionKind]bool{}
	for _, k := range kinds() {
		children, err := served(mgr, k)
		if err != nil {
			return err
		}
		for _, child := range children {
			if err := indexOnce(ctx, mgr, child, indexed); err != nil {
				return err
			}
		}
		if err := add(mgr, settings, shared, k, children); err != nil {
			return fmt.Errorf("add controller %s: %w", k.name, err)
		}
	}
	return nil
}

// served returns the kinds of children that this cluster has.
func served(mgr manager.Manager, k kind) ([]client.Object, error) {
	children := slices.Clone(k.owned)
	for _, gvk := range k.optional {
		_, err := mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for the API of %s: %w", gvk.Kind, err)
		}
		child := &unstructured.Unstructured{}
		child.SetGroupVersionKind(gvk)
		children = append(children, child)
	}
	return children, nil
}

// indexOnce indexes a kind by owner. Two controllers may have children of one kind; it is indexed for both.
func indexOnce(ctx context.Context, mgr manager.Manager, child client.Object, indexed map[schema.GroupVersionKind]bool) error {
	gvk, err := apiutil.GVKForObject(child, mgr.GetScheme())
	if err != nil || indexed[gvk] {
		return err
	}
	indexed[gvk] = true
	return observe.Index(ctx, mgr.GetFieldIndexer(), child)
}

// Leader election still records its events in the old group:
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create;patch

func add(mgr manager.Manager, settings input.Settings, shared writers, k kind, children []client.Object) error {
	b := builder.ControllerManagedBy(mgr).Named(k.name).
		For(k.primary, builder.WithPredicates(specOrMetadataChanged())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: k.workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	gvks := make([]schema.GroupVersionKind, 0, len(children))
	for _, child := range children {
		gvk, err := apiutil.GVKForObject(child, mgr.GetScheme())
		if err != nil {
			return err
		}
		gvks = append(gvks, gvk)
		b = b.Owns(child, builder.WithPredicates(childChanged()), builder.MatchEveryOwner)
	}
	for object, mapping := range k.also {
		b = b.Watches(object, handler.EnqueueRequestsFromMapFunc(mapping(mgr)), builder.WithPredicates(cameOrWent()))
	}
	tools := controllers.Tools{
		Cache:    mgr.GetCache(),
		Scheme:   mgr.GetScheme(),
		Observe:  observe.NewObserver(mgr.GetCache(), mgr.GetScheme(), gvks...),
		Apply:    shared.apply,
		Status:   statusio.NewWriter(mgr.GetClient(), mgr.GetEventRecorder("dynamo-operator"), shared.store, clock.RealClock{}),
		Settings: settings,
		Clock:    clock.RealClock{},
		Plans:    memo.New[controllers.Plan](),
	}
	return b.Complete(k.reconciler(tools, mgr))
}
