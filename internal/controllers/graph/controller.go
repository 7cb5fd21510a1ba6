// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
)

// Name is the controller's name in metrics and logs.
const Name = "DynamoGraphDeployment"

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Owned are the kinds of a graph's direct children.
func Owned() []client.Object {
	return []client.Object{
		&v1alpha1.DynamoComponentDeployment{}, &corev1.PersistentVolumeClaim{}, &corev1.ConfigMap{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{},
	}
}

// Optional are kinds of children whose API a cluster may lack.
func Optional() []schema.GroupVersionKind { return []schema.GroupVersionKind{network.PoolKind} }

// Reconciler converges graphs.
type Reconciler struct{ controllers.Tools }

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;list;watch
// +kubebuilder:rbac:groups=inference.networking.k8s.io,resources=inferencepools,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,verbs=bind,resourceNames=dynamo-operator-planner;dynamo-operator-epp
// The operator may grant only what it has itself, so it has what discovery roles contain:
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=get;list;watch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=get;list;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamoworkermetadatas,verbs=create;delete;get;list;patch;update;watch

// Reconcile brings one graph's children and status to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.DynamoGraphDeployment{}
	if err := r.Cache.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.Forget(req)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	g, ok := r.Status.Newest(kind, cached).(*v1alpha1.DynamoGraphDeployment)
	if !ok || g.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // what it owns is collected; making anything now would outlive it
	}
	missing, err := r.missingClaims(ctx, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := r.Plan(g, strings.Join(missing, ","), func() controllers.Plan { return Desired(g, missing, r.Settings, r.Scheme) })
	if plan.Err != nil {
		return reconcile.Result{}, reconcile.TerminalError(plan.Err)
	}
	observed, err := r.Observe.Children(ctx, g, plan.Children)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(plan.Problems) > 0 {
		return r.store(ctx, g, Refused(g, plan.Problems, observed, r.Now()))
	}
	applied := r.Apply.All(ctx, g, plan.Children, observed)
	result, err := r.store(ctx, g, Status(g, applied, r.Now()))
	return statusio.Answer(result, applied.Wake, err, applied.Err())
}

// missingClaims returns the claims that the graph expects to find and that are not there.
func (r *Reconciler) missingClaims(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) ([]string, error) {
	var missing []string
	for _, claim := range g.Spec.PVCs {
		if claim.Name == nil || *claim.Name == "" || (claim.Create != nil && *claim.Create) {
			continue
		}
		err := r.Cache.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: *claim.Name}, &corev1.PersistentVolumeClaim{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, *claim.Name)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read claim %q: %w", *claim.Name, err)
		}
	}
	return missing, nil
}

// WaitingFor returns the graphs of a namespace that name a claim, to be woken when it comes or goes.
func WaitingFor(graphs []v1alpha1.DynamoGraphDeployment, claim string) []reconcile.Request {
	var waiting []reconcile.Request
	for i := range graphs {
		if slices.ContainsFunc(graphs[i].Spec.PVCs, func(p v1alpha1.PVC) bool { return p.Name != nil && *p.Name == claim }) {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&graphs[i])})
		}
	}
	return waiting
}

// store writes a status and the events that go with it.
func (r *Reconciler) store(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, next v1alpha1.DynamoGraphDeploymentStatus) (reconcile.Result, error) {
	after := g.DeepCopy()
	after.Status = next
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: g, After: after,
		Transition: g.Status.State != next.State || conditions.Transitioned(g.Status.Conditions, next.Conditions),
		Events:     Events(g.Status, next),
	})
	return reconcile.Result{RequeueAfter: held}, err
}
