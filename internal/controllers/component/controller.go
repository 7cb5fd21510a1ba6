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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
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
	plan, err := r.plan(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	observed, err := r.Observe.Children(ctx, c, plan.Children)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(plan.Problems) > 0 {
		return r.store(ctx, c, Refused(c, plan.Problems, observed, r.Now()))
	}
	applied := r.Apply.All(ctx, c, plan.Children, observed)
	result, err := r.store(ctx, c, Status(c, applied, r.Now()))
	return statusio.Answer(result, applied.Wake, err, applied.Err())
}

// plan returns what the component wants. Which world its pods are rendered in depends on the pods that are there.
func (r *Reconciler) plan(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (controllers.Plan, error) {
	live, err := r.live(ctx, c)
	if err != nil {
		return controllers.Plan{}, err
	}
	var fresh input.World
	open := live == nil || servesNobody(live) // what is found now is what pods get
	if open {
		if fresh, err = r.Surroundings.World(ctx, c); err != nil {
			return controllers.Plan{}, err
		}
	}
	plan := r.Plan(c, circumstances(c, live, fresh), func() controllers.Plan {
		if !open && Keeps(c, live, r.Settings) {
			return Desired(c, Found(live), r.Settings, r.Scheme)
		}
		if !open {
			if fresh, err = r.Surroundings.World(ctx, c); err != nil {
				return controllers.Plan{Err: err}
			}
		}
		return Desired(c, fresh, r.Settings, r.Scheme)
	})
	if plan.Err != nil {
		r.Plans.Forget(client.ObjectKeyFromObject(c))
	}
	return plan, plan.Err
}

// circumstances are what a plan depends on besides its component, as text.
func circumstances(c *v1alpha1.DynamoComponentDeployment, live *appsv1.Deployment, fresh input.World) string {
	if live == nil {
		return fmt.Sprint(c.GetParentGraphDeploymentName(), fresh)
	}
	return fmt.Sprint(c.GetParentGraphDeploymentName(), fresh, live.UID, live.Generation, servesNobody(live), live.Annotations[names.AnnotationSurroundings])
}

// live returns the component's Deployment in the newest state that is known, nil for none.
func (r *Reconciler) live(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (*appsv1.Deployment, error) {
	var cached client.Object = &appsv1.Deployment{}
	if err := r.Cache.Get(ctx, client.ObjectKeyFromObject(c), cached); err != nil {
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Deployment %q: %w", c.Name, err)
		}
		cached = nil
	}
	key := recent.Key{GroupKind: deploymentKind, NamespacedName: client.ObjectKeyFromObject(c)}
	d, _ := r.Apply.Newest(key, cached).(*appsv1.Deployment)
	return d, nil
}

// WaitingForSecrets returns the components that a new registry secret may help: those that do not run yet.
func WaitingForSecrets(components []v1alpha1.DynamoComponentDeployment) []reconcile.Request {
	var waiting []reconcile.Request
	for i := range components {
		c := conditions.Find(components[i].Status.Conditions, v1alpha1.ConditionAvailable)
		if c == nil || c.Status != metav1.ConditionTrue {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&components[i])})
		}
	}
	return waiting
}

// store writes a status and the events that go with it.
func (r *Reconciler) store(
	ctx context.Context, c *v1alpha1.DynamoComponentDeployment, next v1alpha1.DynamoComponentDeploymentStatus,
) (reconcile.Result, error) {
	after := c.DeepCopy()
	after.Status = next
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: c, After: after,
		Transition: conditions.Transitioned(c.Status.Conditions, next.Conditions),
		Events:     Events(c.Status, next),
	})
	return reconcile.Result{RequeueAfter: held}, err
}
