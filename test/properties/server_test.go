// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package properties

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/component"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/graph"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/faults"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestApplyingTheSameTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	forEachSeed(t, serverSeeds, func(t *testing.T, seed uint64) {
		t.Parallel()
		g := builders.NewGenerator(seed).Graph(harness.Namespace(t), "g")
		g.UID = "11111111-2222-3333-4444-555555555555"
		first := applyAll(t, g)
		second := applyAll(t, g)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("resource versions after the second apply (-first +second):\n%s", diff)
		}
	})
}

// applyAll sends a graph and its components to the server, whether or not that changes anything, and returns the
// versions of what is there.
func applyAll(t *testing.T, g *v1alpha1.DynamoGraphDeployment) map[string]string {
	t.Helper()
	restricted := settings
	restricted.ClusterWide = false
	applier := apply.NewApplier(harness.Client(t), harness.Client(t), harness.Scheme(t), recent.NewStore(clock.RealClock{}), clock.RealClock{})
	versions := map[string]string{}
	send := func(owner client.Object, plan apply.Plan) apply.Children {
		result := applier.All(t.Context(), owner, plan, unsure(t, plan))
		if err := result.Err(); err != nil {
			t.Fatalf("apply: %v", err)
		}
		for key, live := range result.Live {
			versions[key.String()] = live.GetResourceVersion()
		}
		return result.Live
	}
	plan := graph.Desired(g, graph.Place{Graph: input.Graph{Settings: restricted}}, harness.Scheme(t))
	if len(plan.Problems) > 0 || plan.Err != nil {
		t.Fatalf("plan: %v %v", plan.Problems, plan.Err)
	}
	for _, live := range send(g, plan.Children) {
		if c, ok := live.(*v1alpha1.DynamoComponentDeployment); ok {
			send(c, component.Desired(c, input.World{}, restricted, harness.Scheme(t)).Children)
		}
	}
	return versions
}

// unsure reads what is there already and takes the hash off, so that the applier has to send everything again.
func unsure(t *testing.T, plan apply.Plan) apply.Children {
	t.Helper()
	there := apply.Children{}
	for _, intent := range slices.Concat(plan...) {
		mapping, err := harness.Client(t).RESTMapper().RESTMapping(intent.Key.GroupKind)
		if err != nil {
			t.Fatal(err)
		}
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(mapping.GroupVersionKind)
		if err := harness.Client(t).Get(t.Context(), intent.Key.NamespacedName, obj); err == nil {
			delete(obj.Annotations, names.AnnotationAppliedHash)
			there[intent.Key] = obj
		}
	}
	return there
}

// pairs is how many updates are compared with creations. Each is two graphs under two operators.
const pairs = 8

func TestAnUpdatedGraphEndsWhereANewOneBegins(t *testing.T) {
	t.Parallel()
	world, err := faults.NewWorld(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	forEachSeed(t, pairs, func(t *testing.T, seed uint64) {
		t.Parallel()
		generator := builders.NewGenerator(seed)
		a := generator.Graph("", "g")
		b := generator.Change(a)
		updated := settle(t, world, a, func(ns string) {
			harness.Change(t, client.ObjectKey{Namespace: ns, Name: "g"}, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec, g.Annotations = b.DeepCopy().Spec, b.Annotations
			})
		})
		created := settle(t, world, b, nil)
		if diff := cmp.Diff(created, updated); diff != "" {
			t.Errorf("(-created +updated):\n%s", diff)
		}
	})
}

// settle deploys a graph in a namespace of its own, changes it, and returns what is there in the end.
func settle(t *testing.T, world *faults.World, g *v1alpha1.DynamoGraphDeployment, change func(ns string)) faults.Snapshot {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns)
	g = g.DeepCopy()
	g.Namespace = ns
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, "g")
	if change != nil {
		change(ns)
		harness.AwaitReady(t, ns, "g")
	}
	return faults.AtRest(t, world, ns).Without("generation", "observedGeneration")
}
