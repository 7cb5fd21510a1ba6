// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

// Name is the controller's name in metrics and logs.
const Name = "DynamoComponentDeployment"

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Owned are the kinds of a component's children.
func Owned() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &corev1.Service{}}
}

// Reconciler converges components.
type Reconciler struct{ controllers.Tools }

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=create;delete;get;list;patch;watch

// Reconcile brings one component's children and status to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.DynamoComponentDeployment{}
	if err := r.Cache.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.Forget(req)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	c, ok := r.Status.Newest(kind, cached).(*v1alpha1.DynamoComponentDeployment)
	if !ok || c.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // what it owns is collected; making anything now would outlive it
	}
	plan := r.Plans.Get(c, func() controllers.Plan { return Desired(c, r.Settings, r.Scheme) })
	if plan.Err != nil {
		return reconcile.Result{}, reconcile.TerminalError(plan.Err)
	}
	if len(plan.Problems) > 0 {
		return r.store(ctx, c, Refused(c, plan.Problems, r.Now()))
	}
	observed, err := r.Observe.Children(ctx, c, plan.Children)
	if err != nil {
		return reconcile.Result{}, err
	}
	applied := r.Apply.All(ctx, c, plan.Children, observed)
	result, err := r.store(ctx, c, Status(c, applied, r.Now()))
	return statusio.Answer(result, applied.Wake, err, applied.Err())
}

// store writes a status and the events that go with it.
func (r *Reconciler) store(ctx context.Context, c *v1alpha1.DynamoComponentDeployment, next v1alpha1.DynamoComponentDeploymentStatus) (reconcile.Result, error) {
	after := c.DeepCopy()
	after.Status = next
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: c, After: after,
		Transition: conditions.Transitioned(c.Status.Conditions, next.Conditions),
		Events:     Events(c.Status, next),
	})
	return reconcile.Result{RequeueAfter: held}, err
}
