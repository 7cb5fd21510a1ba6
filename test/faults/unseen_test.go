// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// oneSightIn is how many rows there are to one that is run without -faults.full.
const oneSightIn = 12

// edits change one group of fields each.
var edits = map[string]func(*v1alpha1.DynamoGraphDeployment){
	"image": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	},
	"arguments": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Args = []string{"python3 -m dynamo.vllm --model acme/other-1b"}
	},
	"replicas": func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Frontend"].Replicas = new(int32(3)) },
	"nothing of a service": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Frontend"].Replicas = new(int32(0))
	},
	"variables of all": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Envs = []corev1.EnvVar{{Name: "LEVEL", Value: "2"}}
	},
	"variables of one": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Envs = []corev1.EnvVar{{Name: "LEVEL", Value: "3"}}
	},
	"resources": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Resources = &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{CPU: "2", GPU: "1"}}
	},
	"labels of pods": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Labels = map[string]string{"team": "a"}
	},
	"annotations of pods": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Annotations = map[string]string{"team": "a"}
	},
	"one more service": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Prefill"] = g.Spec.Services["Frontend"].DeepCopy()
		g.Spec.Services["Prefill"].ComponentType = v1alpha1.ComponentTypePrefill
	},
	"one service less": func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, "Decode") },
	"no adapter":       func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ScalingAdapter = nil },
	"one more adapter": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Frontend"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	},
	"model": func(g *v1alpha1.DynamoGraphDeployment) { servesModel(g.Spec.Services["Decode"]) },
	"discovery": func(g *v1alpha1.DynamoGraphDeployment) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationDiscoveryBackend, names.DiscoveryEtcd)
	},
}

// detour is how a graph comes to its end while nobody sees it.
type detour struct {
	name string
	// again says that the graph is deleted and made again with the edit, instead of edited and edited back.
	again bool
	// missed says that the operator never hears of what was between.
	missed bool
}

var detours = []detour{
	{name: "there and back, heard late"},
	{name: "there and back, never heard of", missed: true},
	{name: "deleted and made anew, heard late", again: true},
	{name: "deleted and made anew, never heard of", again: true, missed: true},
}

func TestADetourThatNobodySawEndsLikeTheDirectPath(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		var rows []*Result
		ways := map[*Result]detour{}
		for _, way := range detours {
			r := &Result{Goal: "L4", Scenario: name, Fault: way.name}
			if isPicked(r.Cell(), oneSightIn) && b.isWanted(t, *r) {
				rows, ways[r] = append(rows, r), way
			}
		}
		if len(rows) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, r := range rows {
				t.Run(r.Fault, func(t *testing.T) {
					t.Parallel()
					b.record(t, r)
					direct, edit := "no edit", func(*v1alpha1.DynamoGraphDeployment) {}
					if ways[r].again {
						direct, edit = "edit of "+name, edits[name]
					}
					want := b.reference(t, direct, func() ending { return ending{world: b.goDirectly(t, edit)} }).world
					if diff := cmp.Diff(want, b.goRound(t, ways[r], edits[name], r)); diff != "" {
						t.Errorf("(-direct +detour):\n%s", diff)
					}
				})
			}
		})
	}
}

// counters differ between a direct path and a detour, and mean nothing else.
var counters = []string{"generation", "observedGeneration"}

func (b *bed) goDirectly(t *testing.T, edit func(*v1alpha1.DynamoGraphDeployment)) Snapshot {
	t.Helper()
	ns, wire := b.begin(t)
	g := rich(ns)
	edit(g)
	create(t, g)
	ready(t, ns)
	return b.rest(t, ns, wire).Without(counters...)
}

func (b *bed) goRound(t *testing.T, way detour, edit func(*v1alpha1.DynamoGraphDeployment), r *Result) Snapshot {
	t.Helper()
	ns, wire := b.begin(t)
	createRich(t, ns)
	b.rest(t, ns, wire)
	release := wire.Blind(Blindness{Resource: graphs, Missed: way.missed})
	t.Cleanup(release)
	if way.again {
		remove(t, rich(ns), metav1.DeletePropagationBackground)
		graphGone(t, ns)
		g := rich(ns)
		edit(g)
		create(t, g)
	} else {
		change(t, ns, edit)
		change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
			before := rich(ns)
			g.Annotations, g.Spec = before.Annotations, before.Spec
		})
	}
	harness.Eventually(t, patience, "news are held", func() (bool, string) { return wire.Deceived(graphs) > 0, "nothing to hold" })
	r.Faults = wire.Deceived(graphs)
	release()
	hasHeard(t, wire, graphs)
	ready(t, ns)
	return b.lastRest(t, ns, wire).Without(counters...)
}

// hasHeard waits until what was kept from an operator has come to it: a watch that expired again and again is tried anew after a
// pause. A world that is right without the news proves nothing.
func hasHeard(t *testing.T, wire *Wire, resource string) {
	t.Helper()
	harness.Eventually(t, patience, "news that were kept come through", func() (bool, string) {
		return wire.Heard(resource) > 0, fmt.Sprintf("%d of %s were kept", wire.Deceived(resource), resource)
	})
}

// begin is a namespace with an operator behind a wire.
func (b *bed) begin(t *testing.T) (string, *Wire) {
	t.Helper()
	ns, wire := harness.Namespace(t), NewWire()
	t.Cleanup(func() { b.diary.Forget(ns) })
	harness.SimulateDeployments(t, ns)
	launch(t, ns, wire)
	return ns, wire
}

// actions are what users do that is dangerous when an operator sees the past.
var actions = map[string]struct{ do, ended func(t *testing.T, ns string) }{
	"delete and make again": {do: func(t *testing.T, ns string) {
		remove(t, rich(ns), metav1.DeletePropagationBackground)
		graphGone(t, ns)
		create(t, rich(ns))
	}},
	"scale": {do: func(t *testing.T, ns string) { change(t, ns, edits["replicas"]) }},
	"change and roll back": {do: func(t *testing.T, ns string) {
		change(t, ns, edits["image"])
		change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec = rich(ns).Spec })
	}},
	"add a service":  {do: func(t *testing.T, ns string) { change(t, ns, edits["one more service"]) }},
	"drop a service": {do: func(t *testing.T, ns string) { change(t, ns, edits["one service less"]) }},
	"delete a component": {do: func(t *testing.T, ns string) {
		remove(t, &v1alpha1.DynamoComponentDeployment{ObjectMeta: named(ns, "chat-decode")}, metav1.DeletePropagationBackground)
	}},
	"scale by adapter": {
		do:    func(t *testing.T, ns string) { scale(t, ns, 2) },
		ended: func(t *testing.T, ns string) { scaled(t, ns, 2) },
	},
	"give the adapter up": {do: func(t *testing.T, ns string) { change(t, ns, edits["no adapter"]) }},
}

// watchedKinds are the kinds of which an operator may see the past.
var watchedKinds = []string{
	graphs, components, adapters, "deployments", "services", "serviceaccounts",
}

// processKinds are the kinds of which operators that run as processes see the past.
var processKinds = []string{graphs, components, "deployments"}

// views are the ways in which an operator does not see what is.
var views = map[string]func(b *bed, t *testing.T, action, resource string, r *Result){
	"lists from the past of ": (*bed).startInThePast,
	"no news since start of ": func(b *bed, t *testing.T, action, resource string, r *Result) {
		b.actUnseen(t, action, Blindness{Resource: resource, Streaming: true}, r)
	},
	"lists from the past, by an operator without streamed lists, of ": func(b *bed, t *testing.T, action, resource string, r *Result) {
		b.startProcess(t, action, process{streams: false, blindness: Blindness{Resource: resource}}, r)
	},
	"no news since start, to an operator with streamed lists, of ": func(b *bed, t *testing.T, action, resource string, r *Result) {
		b.startProcess(t, action, process{streams: true, blindness: Blindness{Resource: resource, Streaming: true}}, r)
	},
	"expired watch of ": func(b *bed, t *testing.T, action, resource string, r *Result) {
		b.actUnseen(t, action, Blindness{Resource: resource, Missed: true}, r)
	},
}

func TestAnOperatorThatSeesThePastDeletesNothing(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(actions)) {
		for _, resource := range watchedKinds {
			for view, see := range views {
				r := &Result{Goal: "L3", Scenario: name, Fault: view + resource}
				if strings.Contains(view, "operator") && (*binary != "" || !slices.Contains(processKinds, resource)) {
					continue
				}
				if !isPicked(r.Cell(), oneSightIn) || !b.isWanted(t, *r) {
					continue
				}
				t.Run(name+"/"+r.Fault, func(t *testing.T) {
					t.Parallel()
					b.record(t, r)
					see(b, t, name, resource, r)
				})
			}
		}
	}
}
