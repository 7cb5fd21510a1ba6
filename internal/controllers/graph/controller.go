// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

// Name is the controller's name in metrics and logs.
const Name = "DynamoGraphDeployment"

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Owned are the kinds of a graph's direct children that every cluster has. Services and Ingresses are its own on Grove.
func Owned() []client.Object {
	return []client.Object{
		&v1alpha1.DynamoComponentDeployment{}, &v1alpha1.DynamoGraphDeploymentScalingAdapter{},
		&corev1.PersistentVolumeClaim{}, &corev1.ConfigMap{}, &corev1.Secret{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.Service{}, &networkingv1.Ingress{}, &policyv1.PodDisruptionBudget{},
	}
}

// Reconciler converges graphs.
type Reconciler struct {
	controllers.Tools
	Surroundings observe.Surroundings
	// Queues is where KAI's queues are read: they belong to the cluster, which not every operator may watch.
	Queues client.Reader
	Hosts  observe.Hosts

	// unread lets it be said once that queues cannot be read.
	unread sync.Once
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamographdeploymentscalingadapters,verbs=create;delete;list;patch;watch
// +kubebuilder:rbac:groups=grove.io,resources=podcliquesets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=grove.io,resources=podcliques;podcliquescalinggroups,verbs=list;watch
// +kubebuilder:rbac:groups=grove.io,resources=podcliques/scale;podcliquescalinggroups/scale,verbs=patch
// +kubebuilder:rbac:groups=scheduling.run.ai,resources=queues,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=create;list;patch;watch
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
	if !ok {
		return reconcile.Result{}, nil
	}
	free := r.Apply.Finalizer(ctx, kind, g, false) // the reference leaves one, and nothing has to be done before a graph goes
	if g, ok = free.Live[recent.KeyOf(kind, g)].(*v1alpha1.DynamoGraphDeployment); !ok || g.DeletionTimestamp != nil {
		// What it owns is collected; making anything now would outlive it.
		return statusio.Answer(reconcile.Result{}, free.Wake, free.Err())
	}
	return r.pass(ctx, g)
}

// pass looks at a live graph: what is there, what should be, then the difference.
func (r *Reconciler) pass(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) (reconcile.Result, error) {
	observed, err := r.observe(ctx, g)
	if err != nil {
		return reconcile.Result{}, err
	}
	onGrove := onGrove(g, r.Served().Grove, r.workloads(g, observed))
	seen, err := r.see(ctx, g, onGrove, observed)
	if err != nil {
		return reconcile.Result{}, err
	}
	restart := nextRestart(g, seen)
	place, err := r.place(ctx, g, seen, restart)
	if err != nil {
		return reconcile.Result{}, err
	}
	plan, err := r.plan(ctx, g, place)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(plan.Problems) > 0 {
		// A move that is refused leaves the graph where it runs, and that is what is counted.
		if blocking, _ := inTheWay(onGrove, observed); len(blocking) > 0 {
			if seen, err = r.see(ctx, g, !onGrove, observed); err != nil {
				return reconcile.Result{}, err
			}
		}
		result, err := r.store(ctx, g, Refused(g, plan.Problems, seen, r.Now()), false)
		return statusio.Answer(result, place.askAgain(), err, place.KeyProblem)
	}
	if err := r.Observe.Named(ctx, plan.Children, observed); err != nil {
		return reconcile.Result{}, err
	}
	applied, moving, err := r.converge(ctx, g, onGrove, plan, observed)
	if err != nil {
		return reconcile.Result{}, err
	}
	if seen, err = r.see(ctx, g, onGrove, applied.Live); err != nil {
		return reconcile.Result{}, err
	}
	seen.Moving, seen.UnreadQueue = moving, place.UnreadQueue
	applied.Failures = append(applied.Failures, r.scale(ctx, g, place, seen)...)
	result, err := r.store(ctx, g, Status(g, applied, seen, restart, r.Now()), unheard(g, applied, seen))
	return statusio.Answer(result, applied.Wake, err, applied.Err())
}

// converge brings the graph's children to a plan. While it moves to another orchestrator, what runs on the old one goes
// first.
func (r *Reconciler) converge(
	ctx context.Context, g *v1alpha1.DynamoGraphDeployment, onGrove bool, plan controllers.Plan, observed apply.Children,
) (applied apply.Result, moving bool, err error) {
	paused := controllers.IsPaused(g)
	blocking, waiting := inTheWay(onGrove, observed)
	var wake time.Duration
	if moving = len(blocking) > 0 && !paused; moving {
		if wake, err = r.Apply.Clear(ctx, g, blocking); err != nil {
			return apply.Result{}, true, err
		}
		observed = maps.Clone(observed)
		maps.DeleteFunc(observed, func(key recent.Key, _ client.Object) bool { return blocking[key] != nil })
		plan.Children = plan.Children.Without(waiting...)
	}
	applied = r.Converge(ctx, paused, g, plan.Children, observed)
	if wake > 0 && (applied.Wake == 0 || wake < applied.Wake) {
		applied.Wake = wake
	}
	return applied, moving, nil
}

// plan returns what the graph wants. Services on Grove whose pods change anyway get the surroundings of today.
func (r *Reconciler) plan(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, p Place) (controllers.Plan, error) {
	var err error
	plan := r.Plan(g, p.circumstances(), func() controllers.Plan {
		if p.OnGrove && p.Live != nil {
			for service := range changing(g, p.Graph) {
				if p.Worlds[service], err = r.Surroundings.OfService(ctx, g, service); err != nil {
					return controllers.Plan{Err: err}
				}
			}
		}
		return Desired(g, p, r.Scheme)
	})
	if plan.Err != nil {
		r.Plans.Forget(client.ObjectKeyFromObject(g))
		if err == nil {
			return plan, reconcile.TerminalError(plan.Err)
		}
	}
	return plan, plan.Err
}

// store writes a status and the events that go with it. One that is unheard may wait for news.
func (r *Reconciler) store(
	ctx context.Context, g *v1alpha1.DynamoGraphDeployment, next v1alpha1.DynamoGraphDeploymentStatus, unheard bool,
) (reconcile.Result, error) {
	after := g.DeepCopy()
	after.Status = next
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: g, After: after, Was: g.Status.Conditions, Is: next.Conditions,
		Transition: g.Status.State != next.State || !equality.Semantic.DeepEqual(g.Status.Restart, next.Restart),
		Unheard:    unheard, Events: Events(g.Status, next),
	})
	return reconcile.Result{RequeueAfter: held}, err
}
