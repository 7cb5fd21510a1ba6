// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/component"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/graph"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/scaling"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/etcdkeys"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/memo"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/sshkey"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/apis"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/lws"
)

// reconcileTimeout ends a pass whose request hangs, so that it does not hold its worker for ever.
const reconcileTimeout = 30 * time.Second

// kind is a controller: which objects it is for, what they own, and how many passes may run at once.
type kind struct {
	name    string
	primary client.Object
	list    func() client.ObjectList
	// status is the word under which an object is counted.
	status func(client.Object) string
	owned  []client.Object
	// optional are kinds that are watched while their API is served.
	optional map[apis.API][]watched
	// workers are how many passes may run at once, besides those that are held up.
	workers    int
	reconciler func(controllers.Tools, parts) reconcile.Reconciler
	// also are objects that concern a primary without being its children.
	also []related
	// wake is what else wakes a primary, nil for nothing.
	wake func(parts) source.Source
	// begins is told of a namespace in which work may begin, perhaps after another operator's.
	begins func(p parts, namespace string)
}

// related is a kind of objects that concern a primary without being its children.
type related struct {
	object client.Object
	from   func(parts) cache.Cache
	to     func(parts) handler.MapFunc
	when   predicate.Predicate
}

// kinds are all controllers. Workers wait for the API server most of the time, so there are more than cores.
func kinds() []kind {
	return []kind{
		{
			name: graph.Name, primary: &v1alpha1.DynamoGraphDeployment{}, workers: 8,
			list:   func() client.ObjectList { return &v1alpha1.DynamoGraphDeploymentList{} },
			status: graphState,
			owned:  graph.Owned(),
			optional: map[apis.API][]watched{
				apis.InferencePool: {{kind: network.PoolKind}},
				apis.Istio:         {{kind: network.VirtualServiceKind}},
				apis.Grove: {
					{kind: apis.CliqueSetKind},
					{kind: apis.CliqueKind, through: &grovev1alpha1.PodCliqueSet{}},
					{kind: apis.ScalingGroupKind, through: &grovev1alpha1.PodCliqueSet{}},
				},
				apis.KAI: {{kind: apis.QueueKind, to: graphsOfQueue}},
			},
			also: []related{
				{object: &corev1.PersistentVolumeClaim{}, from: mainCache, to: graphsOfClaim, when: cameOrWent()},
				{object: &corev1.Secret{}, from: mainCache, to: graphsOfKey, when: childChanged()},
				{object: &corev1.Secret{}, from: registryCache, to: graphsOfSecret, when: cameOrWent()},
				{object: &corev1.Pod{}, from: mainCache, to: graphOfPod, when: childChanged()},
				{object: &v1alpha1.DynamoGraphDeployment{}, from: mainCache, to: graphsOfHost, when: respecified()},
			},
			reconciler: func(t controllers.Tools, p parts) reconcile.Reconciler {
				return &graph.Reconciler{Tools: t, Surroundings: p.surroundings(t), Queues: p.clusterReader(), Hosts: p.hosts()}
			},
		},
		{
			name: component.Name, primary: &v1alpha1.DynamoComponentDeployment{}, workers: 16,
			list:   func() client.ObjectList { return &v1alpha1.DynamoComponentDeploymentList{} },
			status: componentReadiness,
			owned:  component.Owned(),
			optional: map[apis.API][]watched{
				apis.Istio:   {{kind: network.VirtualServiceKind}},
				apis.LWS:     {{kind: apis.GroupSetKind}},
				apis.Volcano: {{kind: lws.PodGroupKind}},
			},
			also: []related{
				{object: &corev1.Secret{}, from: mainCache, to: componentsOfKey, when: childChanged()},
				{object: &corev1.Secret{}, from: registryCache, to: componentsOfSecret, when: cameOrWent()},
				{object: &corev1.Pod{}, from: mainCache, to: componentOfPod, when: childChanged()},
				{object: &v1alpha1.DynamoGraphDeployment{}, from: mainCache, to: componentsOfGraph, when: pausedOrResumed()},
			},
			reconciler: func(t controllers.Tools, p parts) reconcile.Reconciler {
				return &component.Reconciler{Tools: t, Surroundings: p.surroundings(t), Etcd: p.etcd,
					Denials: observe.NewDenials(p.mgr.GetAPIReader(), clock.RealClock{})}
			},
		},
		{
			name: scaling.Name, primary: &v1alpha1.DynamoGraphDeploymentScalingAdapter{}, workers: 4,
			list:   func() client.ObjectList { return &v1alpha1.DynamoGraphDeploymentScalingAdapterList{} },
			status: adapterReadiness,
			also: []related{
				{object: &v1alpha1.DynamoGraphDeployment{}, from: mainCache, to: adaptersOfGraph, when: servicesChanged()},
				{object: &v1alpha1.DynamoGraphDeploymentScalingAdapter{}, from: mainCache, to: adaptersOfSameGraph, when: movedSinceStart()},
			},
			reconciler: func(t controllers.Tools, _ parts) reconcile.Reconciler { return &scaling.Reconciler{Tools: t} },
		},
		models(),
	}
}

// parts are what controllers are put together from.
type parts struct {
	mgr      manager.Manager
	registry cache.Cache
	settings input.Settings
	served   func() input.Capabilities
	store    *recent.Store
	apply    *apply.Applier
	keys     *sshkey.Keeper
	etcd     *etcdkeys.Client
	sight    sight
	land     territory
	// workers calls workers, and answers tells of what they said.
	workers *placement.Keeper
	answers source.Source
}

// around is what is there before the first controller.
type around struct {
	sight sight
	land  territory
}

func newParts(mgr manager.Manager, registry cache.Cache, c *config.Config, a around, served func() input.Capabilities) parts {
	settings := c.Settings(Environment)
	store := recent.NewStore(clock.RealClock{})
	applier := apply.NewApplier(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetScheme(), store, clock.RealClock{})
	applier.Tally = a.sight.metrics.Wrote
	workers, answers := callWorkers(c, a)
	return parts{
		workers: workers, answers: answers,
		mgr: mgr, registry: registry, settings: settings, served: served, store: store, apply: applier, sight: a.sight, land: a.land,
		etcd: etcdkeys.New(settings.EtcdAddress, clock.RealClock{}),
		keys: &sshkey.Keeper{
			Cache: mgr.GetCache(), API: mgr.GetAPIReader(), Apply: applier,
			Secret:   client.ObjectKey{Namespace: settings.SSHSecretNamespace, Name: settings.SSHSecret},
			Uncached: !settings.ClusterWide && settings.SSHSecretNamespace != c.RestrictedNamespace,
		},
	}
}

func mainCache(p parts) cache.Cache     { return p.mgr.GetCache() }
func registryCache(p parts) cache.Cache { return p.registry }

func (p parts) surroundings(t controllers.Tools) observe.Surroundings {
	return observe.Surroundings{Cache: p.registry, API: p.mgr.GetAPIReader(), Settings: t.Settings}
}

func (p parts) hosts() observe.Hosts {
	return observe.Hosts{Cache: p.mgr.GetCache(), Of: func(g *v1alpha1.DynamoGraphDeployment) []string {
		return slices.Sorted(maps.Keys(render.Hosts(g, p.settings)))
	}}
}

// clusterReader reads what belongs to the whole cluster: from the cache where the operator may watch it.
func (p parts) clusterReader() client.Reader {
	if p.settings.ClusterWide {
		return p.mgr.GetCache()
	}
	return p.mgr.GetAPIReader()
}

// ownNamespaceFile tells the namespace in every pod that has an account.
const ownNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Environment is what the process was given besides its flags.
func Environment(name string) string {
	value := os.Getenv(name)
	if value != "" || name != config.OwnNamespaceVariable {
		return value
	}
	own, err := os.ReadFile(ownNamespaceFile)
	if err != nil {
		return "" // not in a pod
	}
	return strings.TrimSpace(string(own))
}

func addControllers(ctx context.Context, mgr manager.Manager, c *config.Config, a around) (parts, error) {
	registry, err := registrySecrets(mgr, c)
	if err != nil {
		return parts{}, err
	}
	if err := errors.Join(observe.IndexPods(ctx, mgr.GetFieldIndexer()), observe.IndexRevisions(ctx, mgr.GetFieldIndexer()),
		observe.IndexAdapters(ctx, mgr.GetFieldIndexer()), observe.IndexModels(ctx, mgr.GetFieldIndexer())); err != nil {
		return parts{}, err
	}
	lookup, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return parts{}, fmt.Errorf("set up discovery: %w", err)
	}
	dynamic := &dynamic{mgr: mgr, indexed: map[schema.GroupVersionKind]bool{}}
	watch := &apis.Watch{Discovery: lookup, Poll: c.PollAPIs, Listener: dynamic, Log: mgr.GetLogger().WithName("apis")}
	if c.RestrictedNamespace == "" {
		watch.Definitions = mgr.GetCache()
	}
	p := newParts(mgr, registry, c, a, watch.Served)
	if err := errors.Join(p.hosts().Index(ctx, mgr.GetFieldIndexer()), mgr.Add(p.workers)); err != nil {
		return parts{}, err
	}
	for _, k := range kinds() {
		if err := dynamic.add(ctx, p, k); err != nil {
			return parts{}, fmt.Errorf("add controller %s: %w", k.name, err)
		}
	}
	if err := watch.Look(ctx); err != nil {
		return parts{}, fmt.Errorf("look for optional APIs: %w", err)
	}
	return p, mgr.Add(watch)
}

// Leader election still records its events in the old group:
// +kubebuilder:rbac:groups="";events.k8s.io,resources=events,verbs=create

// build makes the controller of a kind, without its optional watches.
func build(p parts, k kind, queue source.Source, tools controllers.Tools) (controller.Controller, error) {
	primary, err := apiutil.GVKForObject(k.primary, p.mgr.GetScheme())
	if err != nil {
		return nil, err
	}
	// The last writes about an object that comes to rest are those of its status.
	b := builder.ControllerManagedBy(p.mgr).Named(k.name).
		For(k.primary, builder.WithPredicates(shown(p.store, primary.GroupKind()), changed())).
		WatchesRawSource(newcomers(p, k)).
		WatchesRawSource(queue).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: (1 + heldUp) * k.workers,
			RateLimiter:             newRetries(),
			NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				return newPlaces(name, k.workers, limiter, p.mgr.GetLogger().WithValues("controller", name))
			},
		})
	for _, child := range k.owned {
		kind, err := apiutil.GVKForObject(child, p.mgr.GetScheme())
		if err != nil {
			return nil, err
		}
		b = b.Owns(child, builder.WithPredicates(gone(p.store, kind.GroupKind()), childChanged()), builder.MatchEveryOwner)
	}
	for _, r := range k.also {
		b = b.WatchesRawSource(source.Kind(r.from(p), r.object, handler.EnqueueRequestsFromMapFunc(r.to(p)), r.when))
	}
	if k.wake != nil {
		b = b.WatchesRawSource(k.wake(p))
	}
	for _, s := range p.land.sources(p, k) {
		b = b.WatchesRawSource(s)
	}
	return b.Build(p.land.guard(p.sight.metrics.Measured(k.name, p.sight.traces, k.reconciler(tools, p))))
}

func (p parts) tools(observer *observe.Observer) controllers.Tools {
	status := statusio.NewWriter(p.mgr.GetClient(), p.mgr.GetEventRecorder("dynamo-operator"), p.store, clock.RealClock{})
	status.Tally, status.TimeToReady = p.sight.metrics.Wrote, p.sight.metrics.BecameReady
	return controllers.Tools{
		Cache:    p.mgr.GetCache(),
		Scheme:   p.mgr.GetScheme(),
		Observe:  observer,
		Apply:    p.apply,
		Status:   status,
		Keys:     p.keys,
		Pods:     observe.Pods{Cache: p.mgr.GetCache()},
		Settings: p.settings,
		Served:   p.served,
		Clock:    clock.RealClock{},
		Plans:    memo.New[controllers.Plan](),
	}
}
