// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package properties checks what must hold for every graph, on graphs made at random. A failure names the seed that
// brings it back.
package properties

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithLooseTopology(), harness.WithModuleCRDs("sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml"))
}

// seeds is how many graphs the pure properties see; the API server sees the first serverSeeds.
const (
	seeds       = 300
	serverSeeds = 25
	oddSeeds    = 400
)

var settings = input.Settings{
	NATSAddress: "nats://nats:4222", DiscoveryBackend: names.DiscoveryKubernetes, ClusterWide: true,
	PlannerClusterRole: "dynamo-operator-planner", EPPClusterRole: "dynamo-operator-epp", DebuggerImage: "python:3.12-slim",
}

// everything renders a graph to its end.
func everything(t *testing.T, g *v1alpha1.DynamoGraphDeployment) []client.Object {
	t.Helper()
	objects, problems := rendered(g)
	if len(problems) > 0 {
		t.Fatalf("the generator made an invalid graph: %v", problems.ToAggregate())
	}
	return objects
}

// rendered is what becomes of a graph, or why nothing does.
func rendered(g *v1alpha1.DynamoGraphDeployment) ([]client.Object, field.ErrorList) {
	problems := admission.Graph(g)
	stages, more := render.Graph(g, input.Graph{Settings: settings})
	if problems = append(problems, more...); len(problems) > 0 {
		return nil, problems
	}
	var objects []client.Object
	for _, obj := range slices.Concat(stages...) {
		objects = append(objects, obj.Object)
		c, ok := obj.Object.(*v1alpha1.DynamoComponentDeployment)
		if !ok {
			continue
		}
		inner, problems := render.Component(input.FromDeployment(c, settings, field.NewPath("spec")))
		if len(problems) > 0 { // a graph is made whole, or not at all
			return nil, field.ErrorList{field.InternalError(nil, fmt.Errorf("component %s: %w", c.Name, problems.ToAggregate()))}
		}
		for _, child := range slices.Concat(inner...) {
			objects = append(objects, child.Object)
		}
	}
	return objects, nil
}

func forEachSeed(t *testing.T, n int, check func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range uint64(n) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { check(t, seed) })
	}
}

func TestRenderingIsDeterministicAndLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	forEachSeed(t, seeds, func(t *testing.T, seed uint64) {
		g := builders.NewGenerator(seed).Graph("ns", "g")
		before := g.DeepCopy()
		first := everything(t, g)
		if diff := cmp.Diff(first, everything(t, g)); diff != "" {
			t.Errorf("two renderings differ:\n%s", diff)
		}
		if diff := cmp.Diff(before, g); diff != "" {
			t.Errorf("rendering changed the graph:\n%s", diff)
		}
	})
}

func TestServicesSelectThePodsTheyMeanAndNoOthers(t *testing.T) {
	t.Parallel()
	forEachSeed(t, seeds, func(t *testing.T, seed uint64) {
		generator := builders.NewGenerator(seed)
		// Two graphs side by side, with equal service names: neither may see the other's pods.
		objects := append(everything(t, generator.Graph("ns", "g")), everything(t, generator.Graph("ns", "h"))...)
		for _, obj := range objects {
			if s, ok := obj.(*corev1.Service); ok && s.Spec.ClusterIP != corev1.ClusterIPNone {
				selectsItsOwn(t, s, objects)
			}
		}
	})
}

// selectsItsOwn checks one component Service against the pods of all Deployments.
func selectsItsOwn(t *testing.T, s *corev1.Service, objects []client.Object) {
	t.Helper()
	selector := labels.SelectorFromSet(s.Spec.Selector)
	found := 0
	for _, obj := range objects {
		d, ok := obj.(*appsv1.Deployment)
		if !ok {
			continue
		}
		pods := d.Spec.Template.Labels
		same := pods[names.LabelGraph] == s.Labels[names.LabelGraph] && pods[names.LabelComponent] == s.Labels[names.LabelComponent]
		matches := selector.Matches(labels.Set(pods))
		if matches && !same {
			t.Errorf("Service %s selects pods of %s", s.Name, d.Name)
		}
		if matches {
			found++
		}
		if !labels.SelectorFromSet(d.Spec.Selector.MatchLabels).Matches(labels.Set(pods)) {
			t.Errorf("Deployment %s does not select its own pods", d.Name)
		}
	}
	if found == 0 {
		t.Errorf("Service %s with selector %v selects nothing", s.Name, s.Spec.Selector)
	}
}

func TestNamesAreValidAndDoNotCollide(t *testing.T) {
	t.Parallel()
	forEachSeed(t, seeds, func(t *testing.T, seed uint64) {
		seen := map[string]bool{}
		for _, obj := range everything(t, builders.NewGenerator(seed).Graph("ns", "g")) {
			key := fmt.Sprintf("%T %s", obj, obj.GetName())
			if shared := fmt.Sprintf("%T", obj) == "*v1.Service" && obj.GetLabels()[names.LabelManagedBy] != ""; seen[key] && !shared {
				t.Errorf("%s is rendered twice", key)
			}
			seen[key] = true
			if problems := validation.IsDNS1123Subdomain(obj.GetName()); len(problems) > 0 {
				t.Errorf("%s: %v", key, problems)
			}
			for label, value := range obj.GetLabels() {
				if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
					t.Errorf("%s has label %s=%s: %v", key, label, value, problems)
				}
			}
		}
	})
}

func TestCollisionsOfNamesAreRefusedWithBothNames(t *testing.T) {
	t.Parallel()
	g := builders.Graph("ns", "g").Service("Decode", "worker").Service("decode", "worker").Obj()
	problems := admission.Graph(g)
	if len(problems) != 1 || problems[0].Field != "spec.services[decode]" {
		t.Errorf("got %v, want one problem that names both", problems)
	}
}

func TestTheAPIServerAcceptsEveryObject(t *testing.T) {
	t.Parallel()
	forEachSeed(t, serverSeeds, func(t *testing.T, seed uint64) {
		t.Parallel()
		ns := harness.Namespace(t)
		api := client.NewDryRunClient(harness.Client(t))
		for _, obj := range everything(t, builders.NewGenerator(seed).Graph(ns, "g")) {
			obj.SetOwnerReferences(nil) // the owner of a dry run does not exist
			if err := api.Create(t.Context(), obj, client.FieldValidation("Strict")); err != nil {
				t.Errorf("%T %s: %v", obj, obj.GetName(), err)
			}
		}
	})
}

// TestWhatTheAPIServerWouldRefuseIsRefusedBeforeAnythingIsMade has users get things wrong: what is rendered at all is accepted whole.
func TestWhatTheAPIServerWouldRefuseIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	ns, made := harness.Namespace(t), 0
	api := client.NewDryRunClient(harness.Client(t))
	for seed := range uint64(oddSeeds) {
		objects, problems := rendered(builders.NewGenerator(seed).Odd(ns, "g"))
		for _, problem := range problems {
			if problem.Type == field.ErrorTypeInternal || !strings.HasPrefix(problem.Field, "spec.") {
				t.Errorf("seed %d: %v names no field of the user's", seed, problem)
			}
		}
		if len(problems) == 0 {
			made++
		}
		for _, obj := range objects {
			obj.SetOwnerReferences(nil)
			if err := api.Create(t.Context(), obj); err != nil {
				t.Errorf("seed %d: %T %s: %v", seed, obj, obj.GetName(), err)
			}
		}
	}
	if made < oddSeeds/10 || made > oddSeeds*9/10 {
		t.Errorf("%d of %d graphs could be made, which tells little", made, oddSeeds)
	}
}

func TestEveryServiceTypeIsAmongTheGenerated(t *testing.T) {
	t.Parallel()
	types := map[string]int{}
	for seed := range uint64(seeds) {
		for _, s := range builders.NewGenerator(seed).Graph("ns", "g").Spec.Services {
			types[s.ComponentType]++
		}
	}
	for _, want := range []string{"frontend", "worker", "prefill", "decode", "planner", "epp", "", "custom"} {
		if types[want] < 10 {
			t.Errorf("type %q was generated %d times among %v", want, types[want], slices.Sorted(maps.Keys(types)))
		}
	}
}
