// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"
	"fmt"
	"maps"
	"slices"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/explain"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
)

// Seen is what a graph's workloads look like.
type Seen struct {
	OnGrove bool
	// Moving tells that workloads of the other orchestrator are still there.
	Moving bool
	// CliqueSet is the graph's PodCliqueSet, nil for none.
	CliqueSet *grovev1alpha1.PodCliqueSet
	Services  map[string]Service
	// UnreadQueue is the KAI queue of which nobody knows whether it is there, empty for none.
	UnreadQueue string
	// Clashes tell of hosts that an older graph publishes too.
	Clashes []string
}

// Service is what one service's workload looks like.
type Service struct {
	Exists bool
	// Restart is the restart token that the workload carries.
	Restart string
	Counts  v1alpha1.ServiceReplicaStatus
	// Why it is not ready, empty for one all of whose replicas are of the live generation and serve.
	Why string
	// Stalled tells that it will not become ready unless somebody does something.
	Stalled bool
	// Outdated tells that the counts are about the past: Grove has not taken over the latest PodCliqueSet.
	Outdated bool
	// Serves tells that at least one replica takes requests, or that none is wanted.
	Serves bool

	// scales is what Grove made of the service, nil for nothing yet.
	scales client.Object
}

// workloads are the graph's components, or its PodCliqueSet, also those that were made a moment ago and that the cache does not show
// yet: a graph that was begun in one way when Grove's API comes must not be begun in the other way as well.
func (r *Reconciler) workloads(g *v1alpha1.DynamoGraphDeployment, children apply.Children) apply.Children {
	found := apply.Children{}
	add := func(key recent.Key) {
		if newest := r.Apply.Newest(key, children[key]); newest != nil && metav1.IsControlledBy(newest, g) {
			found[key] = newest
		}
	}
	add(cliqueSetOf(g))
	for service := range g.Spec.Services {
		add(componentOf(g, service))
	}
	for key, child := range children {
		if key.Kind == componentKind.Kind || key.Kind == cliqueSetKind.Kind {
			found[key] = child
		}
	}
	return found
}

func componentOf(g *v1alpha1.DynamoGraphDeployment, service string) recent.Key {
	return recent.Key{GroupKind: componentKind, NamespacedName: types.NamespacedName{Namespace: g.Namespace, Name: names.Component(g.Name, service)}}
}

func cliqueSetOf(g *v1alpha1.DynamoGraphDeployment) recent.Key {
	return recent.Key{GroupKind: cliqueSetKind, NamespacedName: client.ObjectKeyFromObject(g)}
}

// see reads what the graph's workloads look like. Children are in the newest state that is known.
func (r *Reconciler) see(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, onGrove bool, children apply.Children) (Seen, error) {
	seen := Seen{OnGrove: onGrove, Services: make(map[string]Service, len(g.Spec.Services))}
	var err error
	if seen.Clashes, err = r.clashes(ctx, g); err != nil {
		return seen, err
	}
	if !onGrove {
		for service := range g.Spec.Services {
			key := componentOf(g, service)
			c, _ := r.Apply.Newest(key, children[key]).(*v1alpha1.DynamoComponentDeployment)
			seen.Services[service] = asComponent(key.Name, c)
		}
		return seen, nil
	}
	key := cliqueSetOf(g)
	seen.CliqueSet, _ = r.Apply.Newest(key, children[key]).(*grovev1alpha1.PodCliqueSet)
	for service, spec := range g.Spec.Services {
		report := Service{Counts: g.Status.Services[service], Why: "Grove's API is not served"}
		if r.Served().Grove {
			if report, err = r.clique(ctx, g, service, spec, seen.CliqueSet); err != nil {
				return seen, err
			}
		}
		seen.Services[service] = report
	}
	return seen, nil
}

// clique reads what Grove made of a service.
func (r *Reconciler) clique(
	ctx context.Context, g *v1alpha1.DynamoGraphDeployment, service string, spec *v1alpha1.DynamoComponentDeploymentSharedSpec, set *grovev1alpha1.PodCliqueSet,
) (Service, error) {
	key := client.ObjectKey{Namespace: g.Namespace, Name: names.GroveReplica(g.Name, service)}
	var report Service
	if spec.IsMultinode() {
		group := &grovev1alpha1.PodCliqueScalingGroup{}
		if err := r.get(ctx, key, group); err != nil {
			return Service{}, err
		}
		report = asScalingGroup(key.Name, render.Replicas(g, service), group, set)
	} else {
		clique := &grovev1alpha1.PodClique{}
		if err := r.get(ctx, key, clique); err != nil {
			return Service{}, err
		}
		report = asClique(key.Name, render.Replicas(g, service), clique, set)
	}
	report.Restart = restartOf(set, service)
	if report.Why == "" {
		return report, nil
	}
	pods, err := r.Pods.Of(ctx, g.Namespace, names.Component(g.Name, service))
	if cause := explain.Pods(pods); cause != "" {
		report.Why += "; " + cause
	}
	return report, err
}

// get reads an object and leaves it empty if there is none.
func (r *Reconciler) get(ctx context.Context, key client.ObjectKey, into client.Object) error {
	if err := r.Cache.Get(ctx, key, into); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read %T %q: %w", into, key.Name, err)
	}
	return nil
}

// nextRestart plans the next step of a restart from what is seen.
func nextRestart(g *v1alpha1.DynamoGraphDeployment, seen Seen) rollout.Restart {
	known := map[string]rollout.Seen{}
	for name, service := range seen.Services {
		if !service.Exists {
			continue
		}
		done := service.Why == ""
		if was := g.Status.Restart; service.Outdated && was != nil && was.ObservedID == service.Restart {
			// One PodCliqueSet holds all services: telling one of a restart makes nothing unknown about the others.
			done = !slices.Contains(was.InProgress, name)
		}
		known[name] = rollout.Seen{Token: service.Restart, Done: done}
	}
	return rollout.Next(g.Spec.Restart, slices.Collect(maps.Keys(g.Spec.Services)), g.Status.Restart, known)
}

// scale asks Grove for the number of replicas that the graph wants. Grove takes the number in a PodCliqueSet only for
// what it makes anew.
func (r *Reconciler) scale(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, place Place, seen Seen) []apply.Failure {
	var failures []apply.Failure
	for name, service := range seen.Services {
		want := render.Replicas(g, name)
		if n, ok := place.Replicas[name]; ok {
			want = &n
		}
		if want == nil || service.scales == nil || seen.Moving || controllers.IsPaused(g) {
			continue
		}
		key := recent.Key{NamespacedName: client.ObjectKeyFromObject(service.scales)}
		has := int32(0)
		switch live := service.scales.(type) {
		case *grovev1alpha1.PodClique:
			key.GroupKind, has = cliqueKind, live.Spec.Replicas
		case *grovev1alpha1.PodCliqueScalingGroup:
			key.GroupKind, has = scalingGroupKind, live.Spec.Replicas
		}
		if has == *want {
			continue
		}
		if err := r.Apply.Scale(ctx, g, key, service.scales, *want); client.IgnoreNotFound(err) != nil {
			failures = append(failures, apply.Failure{Key: key, Err: err})
		}
	}
	return failures
}
