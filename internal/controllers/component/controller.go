// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"fmt"

	grovecommon "github.com/ai-dynamo/grove/operator/api/common"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/etcdkeys"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Name is the controller's name in metrics and logs.
const Name = "DynamoComponentDeployment"

var kind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: Name}

// Owned are the kinds of a component's children that every cluster has.
func Owned() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &networkingv1.Ingress{}, &policyv1.PodDisruptionBudget{},
		&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.Secret{},
	}
}

// Reconciler converges components.
type Reconciler struct {
	controllers.Tools
	Surroundings observe.Surroundings
	// Etcd is where the processes of components with that discovery back end are found.
	Etcd *etcdkeys.Client
	// Denials tell why replicas of several nodes get no pods.
	Denials *observe.Denials

	partings partings
}

// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/status,verbs=update
// +kubebuilder:rbac:groups=nvidia.com,resources=dynamocomponentdeployments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=services,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=leaderworkerset.x-k8s.io,resources=leaderworkersets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=scheduling.volcano.sh,resources=podgroups,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses,verbs=create;delete;get;list;patch;watch
// +kubebuilder:rbac:groups=networking.istio.io,resources=virtualservices,verbs=create;delete;get;list;patch;watch

// Reconcile brings one component's children and status to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.DynamoComponentDeployment{}
	if err := r.Cache.Get(ctx, req.NamespacedName, cached); err != nil {
		if apierrors.IsNotFound(err) {
			r.Forget(req)
			r.partings.drop(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	c, ok := r.Status.Newest(kind, cached).(*v1alpha1.DynamoComponentDeployment)
	if !ok {
		return reconcile.Result{}, nil
	}
	if c.DeletionTimestamp != nil {
		return r.part(ctx, c) // what it owns is collected; making anything now would outlive it
	}
	held := r.Apply.Finalizer(ctx, kind, c, leavesKeys(c, r.Settings))
	if c, ok = held.Live[recent.KeyOf(kind, c)].(*v1alpha1.DynamoComponentDeployment); !ok {
		return statusio.Answer(reconcile.Result{}, held.Wake, held.Err())
	}
	settings, keyProblem := r.settings(ctx, c)
	plan, err := r.plan(ctx, c, settings)
	if err != nil {
		return reconcile.Result{}, err
	}
	if keyProblem != nil {
		plan = controllers.Plan{Problems: field.ErrorList{field.InternalError(field.NewPath("spec", "multinode"), keyProblem)}}
	}
	observed, err := r.Observe.Children(ctx, c, plan.Children)
	if err != nil {
		return reconcile.Result{}, err
	}
	seen, err := r.see(ctx, c, observed)
	if err != nil {
		return reconcile.Result{}, err
	}
	paused, err := r.paused(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(plan.Problems) > 0 {
		seen.Paused = paused
		result, err := r.store(ctx, c, Refused(c, plan.Problems, seen, r.Now()), false)
		return statusio.Answer(result, 0, err, keyProblem)
	}
	wait := HaveToWait(c, plan.Children, seen)
	applied := r.Converge(ctx, paused, c, plan.Children.Waiting(wait), observed)
	if seen, err = r.see(ctx, c, applied.Live); err != nil {
		return reconcile.Result{}, err
	}
	seen.Waiting, seen.Paused = waitingNames(wait), paused
	ask := r.denied(ctx, &seen)
	result, err := r.store(ctx, c, Status(c, applied, seen, r.Now()), unheard(c, applied, seen))
	return statusio.Answer(result, soonest(applied.Wake, ask), err, applied.Err())
}

// paused tells whether the component or the graph it belongs to is to be left alone.
func (r *Reconciler) paused(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (bool, error) {
	parent := c.GetParentGraphDeploymentName()
	if parent == "" || controllers.IsPaused(c) {
		return controllers.IsPaused(c), nil
	}
	g := &v1alpha1.DynamoGraphDeployment{}
	if err := r.Cache.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: parent}, g); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return controllers.IsPaused(g), nil
}

// settings are the current ones, with the key pair of mpirun where a component without a graph needs a copy of it.
func (r *Reconciler) settings(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (input.Settings, error) {
	s := r.Current()
	if !NeedsKey(c, s) {
		return s, nil
	}
	pair, err := r.Keys.Pair(ctx)
	s.SSHKey = pair
	return s, err
}

// see returns the component's workloads in the newest state that is known, and their pods.
func (r *Reconciler) see(ctx context.Context, c *v1alpha1.DynamoComponentDeployment, live apply.Children) (Seen, error) {
	seen := Seen{Sets: map[string]*lwsv1.LeaderWorkerSet{}, Groups: map[string]observe.Group{}}
	names := []string{c.Name}
	for key, cached := range live {
		switch workload := r.Apply.Newest(key, cached).(type) {
		case *appsv1.Deployment:
			if workload.Name == c.Name {
				seen.Deployment = workload
			}
		case *lwsv1.LeaderWorkerSet:
			group, err := observe.Groups{Cache: r.Cache}.Of(ctx, workload)
			if err != nil {
				return seen, err
			}
			seen.Sets[workload.Name], seen.Groups[workload.Name] = workload, group
			names = append(names, workload.Name)
		}
	}
	var err error
	seen.Pods, err = r.Pods.Of(ctx, c.Namespace, names...)
	return seen, err
}

// plan returns what the component wants. Which world its pods are rendered in depends on the pods that are there: those that
// serve keep theirs unless they are replaced anyway.
func (r *Reconciler) plan(ctx context.Context, c *v1alpha1.DynamoComponentDeployment, s input.Settings) (controllers.Plan, error) {
	live, err := r.live(ctx, c)
	if err != nil {
		return controllers.Plan{}, err
	}
	if live != nil && !live.idle {
		plan := r.planIn(live.world, c, s)
		if plan.Err != nil || len(plan.Problems) > 0 || live.isFrom(plan.Children) || live.keeps(c, s) {
			return plan, plan.Err
		}
	}
	fresh, err := r.world(ctx, c, s)
	if err != nil {
		return controllers.Plan{}, err
	}
	plan := r.planIn(fresh, c, s)
	return plan, plan.Err
}

func (r *Reconciler) planIn(w input.World, c *v1alpha1.DynamoComponentDeployment, s input.Settings) controllers.Plan {
	plan := r.Plan(c, circumstances(w, c, s), func() controllers.Plan { return Desired(c, w, s, r.Scheme) })
	if plan.Err != nil {
		r.Plans.Forget(client.ObjectKeyFromObject(c))
	}
	return plan
}

// world is what pods of the component find around them now.
func (r *Reconciler) world(ctx context.Context, c *v1alpha1.DynamoComponentDeployment, s input.Settings) (input.World, error) {
	w, err := r.Surroundings.World(ctx, c)
	w.Volcano = c.IsMultinode() && s.Serves.Volcano
	return w, err
}

// live returns the workload that the component's pods are made by in the newest state that is known, nil for none: its
// Deployment, or the first of its groups that serves. Only where none does is there nothing to lose.
func (r *Reconciler) live(ctx context.Context, c *v1alpha1.DynamoComponentDeployment) (*standing, error) {
	if !c.IsMultinode() {
		found, err := r.newest(ctx, deploymentKind, client.ObjectKeyFromObject(c), &appsv1.Deployment{})
		if d, ok := found.(*appsv1.Deployment); ok {
			return standingDeployment(d), err
		}
		return nil, err
	}
	if !r.Served().LWS {
		return nil, nil
	}
	var first *standing
	for i := range max(ptr.Deref(c.Spec.Replicas, 1), 1) {
		key := client.ObjectKey{Namespace: c.Namespace, Name: names.Group(c.Name, i)}
		found, err := r.newest(ctx, groupKind, key, &lwsv1.LeaderWorkerSet{})
		if err != nil {
			return nil, err
		}
		set, ok := found.(*lwsv1.LeaderWorkerSet)
		if !ok {
			continue
		}
		group, err := observe.Groups{Cache: r.Cache}.Of(ctx, set)
		if err != nil {
			return nil, err
		}
		if group.Serves {
			return standingGroup(set, group), nil
		}
		if first == nil {
			first = standingGroup(set, group)
		}
	}
	return first, nil
}

func (r *Reconciler) newest(ctx context.Context, gk schema.GroupKind, name client.ObjectKey, into client.Object) (client.Object, error) {
	if err := r.Cache.Get(ctx, name, into); err != nil {
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read %s %q: %w", gk.Kind, name.Name, err)
		}
		into = nil
	}
	return r.Apply.Newest(recent.Key{GroupKind: gk, NamespacedName: name}, into), nil
}

// circumstances are what a plan depends on besides its component, as text.
func circumstances(w input.World, c *v1alpha1.DynamoComponentDeployment, s input.Settings) string {
	return fmt.Sprint(c.GetParentGraphDeploymentName(), w, s.Serves, s.SSHKey.Fingerprint())
}

// WaitingForSecrets returns the components that a new registry secret may help: those that do not run yet.
func WaitingForSecrets(components []v1alpha1.DynamoComponentDeployment) []reconcile.Request {
	return requests(components, func(c *v1alpha1.DynamoComponentDeployment) bool {
		return !conditions.IsTrue(c.Status.Conditions, v1alpha1.ConditionAvailable)
	})
}

// OfGraph returns the components of a graph.
func OfGraph(components []v1alpha1.DynamoComponentDeployment, graph string) []reconcile.Request {
	return requests(components, func(c *v1alpha1.DynamoComponentDeployment) bool { return c.GetParentGraphDeploymentName() == graph })
}

// OfSeveralNodes returns the components whose replicas span several nodes.
func OfSeveralNodes(components []v1alpha1.DynamoComponentDeployment) []reconcile.Request {
	return requests(components, (*v1alpha1.DynamoComponentDeployment).IsMultinode)
}

func requests(components []v1alpha1.DynamoComponentDeployment, concerns func(*v1alpha1.DynamoComponentDeployment) bool) []reconcile.Request {
	var all []reconcile.Request
	for i := range components {
		if concerns(&components[i]) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&components[i])})
		}
	}
	return all
}

// OfPod returns the component that a pod belongs to. Pods on Grove belong to no component.
func OfPod(pod client.Object) []reconcile.Request {
	if pod.GetLabels()[grovecommon.LabelPodClique] != "" {
		return nil
	}
	name := observe.WorkloadOf(pod)
	if pod.GetLabels()[lwsv1.SetNameLabelKey] != "" {
		name = names.ComponentOfGroup(name)
	}
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: name}}}
}

// store writes a status and the events that go with it. One that is unheard may wait for news.
func (r *Reconciler) store(
	ctx context.Context, c *v1alpha1.DynamoComponentDeployment, next v1alpha1.DynamoComponentDeploymentStatus, unheard bool,
) (reconcile.Result, error) {
	after := c.DeepCopy()
	after.Status = next
	held, err := r.Status.Write(ctx, statusio.Change{
		Kind: kind, Before: c, After: after, Was: c.Status.Conditions, Is: next.Conditions,
		Unheard: unheard, Events: Events(c.Status, next),
	})
	return reconcile.Result{RequeueAfter: held}, err
}
