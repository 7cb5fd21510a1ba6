// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
)

// Name is the controller's name in metrics and logs.
const Name = "DynamoComponentDeployment"

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Owned are the kinds of a component's children.
func Owned() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}

// Optional are kinds of children whose API a cluster may lack.
func Optional() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{network.VirtualServiceKind}
}

// Reconciler converges components.
type Reconciler struct {
	controllers.Tools
	Surroundings observe.Surroundings
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.istio.io,resources=virtualservices,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch

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
	world, err := r.world(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := r.Plans.Get(c, fmt.Sprint(world), func() controllers.Plan { return Desired(c, world, r.Settings, r.Scheme) })
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

// world finds what the component's pods need from their namespace. While the component runs well in its latest
// generation, that is what they have: a registry secret or account that comes or goes must not roll healthy pods.
func (r *Reconciler) world(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (input.World, error) {
	live := &appsv1.Deployment{}
	err := r.Cache.Get(ctx, client.ObjectKeyFromObject(c), live)
	if client.IgnoreNotFound(err) != nil {
		return input.World{}, fmt.Errorf("read Deployment %q: %w", c.Name, err)
	}
	if err == nil && Settled(c, live) {
		return Kept(c, live), nil
	}
	return r.Surroundings.World(ctx, c)
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
