// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

// Name is the controller's name in metrics and logs.
const Name = v1alpha1.KindDynamoGraphDeploymentScalingAdapter

var (
	kind      = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}
	graphKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.KindDynamoGraphDeployment}
)

// Reconciler converges scaling adapters.
type Reconciler struct {
	controllers.Tools
	untold untold
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters,verbs=list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=list;patch;watch

// Reconcile brings one service of a graph to the number of its adapter. What is missing for that wakes the adapter when it
// comes, so nothing is tried again in vain.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cached := &adapterObject{}
	if err := r.Cache.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.untold.drop(r.Plans.UID(req.NamespacedName))
			r.Forget(req)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	a, ok := r.Status.Newest(kind, cached).(*adapterObject)
	if !ok || a.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	seen, err := r.see(ctx, a)
	if err != nil || observe.IsLeftAlone(a, seen.Graph) {
		return reconcile.Result{}, err
	}
	plan := r.Plan(a, "", func() controllers.Plan { return controllers.Plan{Problems: admission.ScalingAdapter(a)} })
	pass := Pass{Seen: seen, Target: Desired(a, plan.Problems, seen)}
	if pass.Problem == "" {
		pass.Applied = r.Apply.Replicas(ctx, a, seen.Graph, a.Spec.DGDRef.ServiceName, a.Spec.Replicas)
		if pass.Has != a.Spec.Replicas && len(pass.Applied.Live) > 0 {
			r.untold.add(a.UID, Scaling{From: pass.Has, To: a.Spec.Replicas, At: r.Now()})
		}
	}
	if pass.isPending() {
		return statusio.Answer(reconcile.Result{}, pass.Applied.Wake, pass.Applied.Err())
	}
	pass.Scaled = r.untold.get(a.UID)
	result, err := r.store(ctx, a, pass)
	return statusio.Answer(result, 0, err, pass.Applied.Err())
}

// see reads what an adapter depends on. The graph is in the newest state that is known, so that a number that was just
// written is not written again.
func (r *Reconciler) see(ctx context.Context, a *adapterObject) (Seen, error) {
	key := client.ObjectKey{Namespace: a.Namespace, Name: a.Spec.DGDRef.Name}
	cached := &v1alpha1.DynamoGraphDeployment{}
	if err := r.Cache.Get(ctx, key, cached); err != nil {
		if apierrors.IsNotFound(err) {
			return Seen{}, nil
		}
		return Seen{}, fmt.Errorf("read graph %q: %w", key.Name, err)
	}
	graph, _ := r.Apply.Newest(recent.Key{GroupKind: graphKind, NamespacedName: key}, cached).(*v1alpha1.DynamoGraphDeployment)
	adapters, err := observe.AdaptersOf(ctx, r.Cache, key)
	return Seen{Graph: graph, Adapters: adapters}, err
}

// store writes a status and the events that go with it.
func (r *Reconciler) store(ctx context.Context, a *adapterObject, pass Pass) (reconcile.Result, error) {
	after := a.DeepCopy()
	after.Status = Status(a, pass, r.Now())
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: a, After: after, Was: a.Status.Conditions, Is: after.Status.Conditions,
		Transition: isTransition(a.Status, after.Status),
		Events:     Events(a, after.Status, pass.Scaled),
	})
	if held == 0 && err == nil {
		r.untold.drop(a.UID)
	}
	return reconcile.Result{RequeueAfter: held}, err
}
