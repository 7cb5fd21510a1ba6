// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"slices"
	"strings"
	"testing"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

func component(service, framework string, nodes int32) input.Component {
	spec := &v1alpha1.DynamoComponentDeploymentSharedSpec{
		ComponentType: v1alpha1.ComponentTypeWorker, ServiceName: service,
		Resources: &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "1"}},
		ExtraPodSpec: &v1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{
			Image: "i", Command: []string{"python3", "-m", "dynamo." + framework},
		}},
	}
	if nodes > 1 {
		spec.Multinode = &v1alpha1.MultinodeSpec{NodeCount: nodes}
	}
	return input.Component{
		Name: "g-" + service, Namespace: "ns", Graph: "g", Spec: spec, OnGrove: true, Path: field.NewPath("spec", "services").Key(service),
	}
}

func render(t *testing.T, g Graph) *grovev1alpha1.PodCliqueSet {
	t.Helper()
	set, errs := Render(g)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return set
}

func cliqueOf(set *grovev1alpha1.PodCliqueSet, name string) *grovev1alpha1.PodCliqueTemplateSpec {
	return podSpecs(set)[name]
}

func TestALiveSetKeepsWhatGroveDoesNotLetChange(t *testing.T) {
	t.Parallel()
	g := Graph{Name: "g", Namespace: "ns", Settings: input.Settings{SSHSecret: "mpi"}, Components: []input.Component{component("a", "trtllm", 3), component("b", "sglang", 1)}}
	live := render(t, g)
	// As another release made it: a smaller gang, another start, another order, another scheduler.
	cliqueOf(live, "a-wkr").Spec.MinAvailable = new(int32(1))
	cliqueOf(live, "a-ldr").Spec.StartsAfter = nil
	for _, clique := range live.Spec.Template.Cliques {
		clique.Spec.PodSpec.SchedulerName = "older"
	}
	slices.Reverse(live.Spec.Template.Cliques)
	live.Spec.Template.PodCliqueScalingGroupConfigs[0].MinAvailable = new(int32(2))
	g.Live, g.Queue = live, "q" // and KAI is here now
	got := render(t, g)
	if n := *cliqueOf(got, "a-wkr").Spec.MinAvailable; n != 1 {
		t.Errorf("gang of %d", n)
	}
	if after := cliqueOf(got, "a-ldr").Spec.StartsAfter; len(after) > 0 {
		t.Errorf("starts after %v", after)
	}
	if n := *got.Spec.Template.PodCliqueScalingGroupConfigs[0].MinAvailable; n != 2 {
		t.Errorf("minimum of the group %d", n)
	}
	for i, clique := range got.Spec.Template.Cliques {
		if clique.Spec.PodSpec.SchedulerName != "older" || clique.Labels[names.LabelQueue] != "" {
			t.Errorf("%s is scheduled by %q in %q", clique.Name, clique.Spec.PodSpec.SchedulerName, clique.Labels[names.LabelQueue])
		}
		if clique.Name != live.Spec.Template.Cliques[i].Name {
			t.Errorf("clique %d is %s, was %s", i, clique.Name, live.Spec.Template.Cliques[i].Name)
		}
	}
}

func TestTheOrderOfCliquesIsFreeWhereTheyStartInAnyOrder(t *testing.T) {
	t.Parallel()
	g := Graph{Name: "g", Namespace: "ns", Settings: input.Settings{SSHSecret: "mpi"}, Components: []input.Component{component("a", "sglang", 1), component("b", "sglang", 1)}}
	g.Live = render(t, g)
	slices.Reverse(g.Live.Spec.Template.Cliques)
	if got := render(t, g).Spec.Template.Cliques[0].Name; got != "a" {
		t.Errorf("%s comes first", got)
	}
}

func TestWhatNeedsAnotherSetIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*input.Component)
		want   string
	}{
		"more nodes":        {func(c *input.Component) { c.Spec.Multinode.NodeCount = 4 }, "spec.services[a].multinode.nodeCount: Invalid value: 4: replicas of this service have 3 nodes"},
		"one node":          {func(c *input.Component) { c.Spec.Multinode = nil }, "spec.services[a].multinode.nodeCount: Invalid value: 1: replicas of this service have 3 nodes"},
		"another scheduler": {func(c *input.Component) { c.Spec.ExtraPodSpec.PodSpec = &corev1.PodSpec{SchedulerName: "mine"} }, "spec.services[a].extraPodSpec.schedulerName: Invalid value: \"mine\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := component("a", "sglang", 3)
			g := Graph{Name: "g", Namespace: "ns", Settings: input.Settings{SSHSecret: "mpi"}, Components: []input.Component{c}, Queue: "q"}
			g.Live = render(t, g)
			tc.change(&g.Components[0])
			_, errs := Render(g)
			if len(errs) == 0 || !strings.HasPrefix(errs[0].Error(), tc.want) || !strings.Contains(errs[0].Error(), wayOut) {
				t.Errorf("got %v, want %s", errs, tc.want)
			}
		})
	}
}

func TestKAIKeepsItsQueueAfterItLeft(t *testing.T) {
	t.Parallel()
	g := Graph{Name: "g", Namespace: "ns", Settings: input.Settings{SSHSecret: "mpi"}, Components: []input.Component{component("a", "sglang", 1)}, Queue: "q"}
	g.Live = render(t, g)
	g.Queue = ""
	if clique := cliqueOf(render(t, g), "a"); clique.Spec.PodSpec.SchedulerName != names.KAIScheduler || clique.Labels[names.LabelQueue] != "q" {
		t.Errorf("pods would move: %q in %q", clique.Spec.PodSpec.SchedulerName, clique.Labels[names.LabelQueue])
	}
}
