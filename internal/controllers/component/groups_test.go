// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// twoNodes is a component with replicas of two nodes.
func twoNodes(replicas int32) *v1alpha1.DynamoComponentDeployment {
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u", Generation: 1}}
	c.Spec.DynamoComponentDeploymentSharedSpec = v1alpha1.DynamoComponentDeploymentSharedSpec{
		ComponentType: v1alpha1.ComponentTypeWorker, Replicas: &replicas, Multinode: &v1alpha1.MultinodeSpec{NodeCount: 2},
		Resources: &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "1"}},
		ExtraPodSpec: &v1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{
			Image: "i", Command: []string{"python3"}, Args: []string{"-m", "dynamo.sglang"},
		}},
	}
	return c
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, lwsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func serving(w input.World) input.Settings {
	return input.Settings{Serves: input.Capabilities{LWS: true, Volcano: w.Volcano}, DiscoveryBackend: names.DiscoveryKubernetes}
}

// made is a group as the plan wants it, with all pods ready.
func made(plan controllers.Plan, index int32) (*lwsv1.LeaderWorkerSet, observe.Group) {
	for _, stage := range plan.Children {
		for _, intent := range stage {
			if intent.Key.Name == names.Group("c", index) && intent.Key.GroupKind == groupKind {
				set := &lwsv1.LeaderWorkerSet{ObjectMeta: metav1.ObjectMeta{
					Name: intent.Key.Name, Namespace: "ns", Annotations: map[string]string{names.AnnotationAppliedHash: intent.Hash},
				}}
				set.Spec.LeaderWorkerTemplate.Size = new(int32(2))
				return set, observe.Group{Updated: 2, Ready: 2, Present: 2, Serves: true}
			}
		}
	}
	return nil, observe.Group{}
}

func TestGroupsWaitForThoseBeforeThem(t *testing.T) {
	t.Parallel()
	old := Desired(twoNodes(3), input.World{}, serving(input.World{}), scheme(t))
	changed := twoNodes(3)
	changed.Spec.ExtraPodSpec.MainContainer.Image = "j"
	next := Desired(changed, input.World{}, serving(input.World{}), scheme(t))
	if len(old.Problems)+len(next.Problems) > 0 {
		t.Fatal(old.Problems, next.Problems)
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		changed     []int32 // these have the new template already
		unready     []int32
		missing     []int32
		want        string
	}{
		"the first goes":            {want: "c-1 c-2"},
		"two at once, if told":      {annotations: map[string]string{names.AnnotationMaxUnavailable: "2"}, want: "c-2"},
		"all at once, if told":      {annotations: map[string]string{names.AnnotationStrategy: "Recreate"}, want: ""},
		"the second waits":          {changed: []int32{0}, unready: []int32{0}, want: "c-1 c-2"},
		"then goes":                 {changed: []int32{0}, want: "c-2"},
		"a broken one goes at once": {unready: []int32{2}, want: "c-0 c-1"},
		"one that is missing":       {missing: []int32{1}, want: "c-0 c-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := changed.DeepCopy()
			c.Spec.Annotations = tc.annotations
			seen := Seen{Sets: map[string]*lwsv1.LeaderWorkerSet{}, Groups: map[string]observe.Group{}}
			for i := range int32(3) {
				if slices.Contains(tc.missing, i) {
					continue
				}
				from := old
				if slices.Contains(tc.changed, i) {
					from = next
				}
				set, group := made(from, i)
				if slices.Contains(tc.unready, i) {
					group.Ready = 1
				}
				seen.Sets[set.Name], seen.Groups[set.Name] = set, group
			}
			got := slices.Sorted(maps.Keys(waitingNames(HaveToWait(c, next.Children, seen))))
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%v wait, want %s", got, tc.want)
			}
		})
	}
}

func TestAComponentOfGroupsIsReadyWhenEveryGroupIs(t *testing.T) {
	t.Parallel()
	c := twoNodes(2)
	plan := Desired(c, input.World{}, serving(input.World{}), scheme(t))
	for name, tc := range map[string]struct {
		change func(*Seen)
		want   string
	}{
		"all":           {func(*Seen) {}, ""},
		"one short":     {func(s *Seen) { s.Groups["c-1"] = observe.Group{Updated: 2, Ready: 1, Present: 2} }, "1 of 2 replicas are ready; LeaderWorkerSet c-1: 2 of 2 pods are updated, 1 of them ready"},
		"an old one":    {func(s *Seen) { s.Groups["c-0"] = observe.Group{Present: 2, Serves: true} }, "LeaderWorkerSet c-0: 0 of 2 pods are updated"},
		"old pods left": {func(s *Seen) { s.Groups["c-0"] = observe.Group{Updated: 2, Ready: 2, Present: 3, Serves: true} }, "1 of 2 replicas are ready"},
		"its turn":      {func(s *Seen) { s.Waiting = map[string]bool{"c-1": true} }, "LeaderWorkerSet c-1 waits for its turn to be updated"},
		"missing":       {func(s *Seen) { delete(s.Sets, "c-1") }, "1 of 2 LeaderWorkerSets are not there yet"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := Seen{Sets: map[string]*lwsv1.LeaderWorkerSet{}, Groups: map[string]observe.Group{}}
			for i := range int32(2) {
				set, group := made(plan, i)
				seen.Sets[set.Name], seen.Groups[set.Name] = set, group
			}
			tc.change(&seen)
			got := Status(c, apply.Result{}, seen, now)
			available := conditions.Find(got.Conditions, v1alpha1.ConditionAvailable)
			reason := conditions.GroupsNotReady
			if tc.want == "" {
				reason = conditions.GroupsReady
			}
			if available.Reason != reason || !strings.Contains(available.Message, tc.want) {
				t.Errorf("%s: %s", available.Reason, available.Message)
			}
			if s := got.Service; s.ComponentKind != v1alpha1.ComponentKindLeaderWorkerSet || s.ComponentName != "c-0" || s.ReadyReplicas == nil {
				t.Errorf("service %+v", s)
			}
		})
	}
}

func TestVolcanoIsLeftOutOfGroupsThatServeWithoutIt(t *testing.T) {
	t.Parallel()
	c := twoNodes(1)
	alone := input.World{}
	plan := Desired(c, alone, serving(alone), scheme(t))
	if len(plan.Problems) > 0 {
		t.Fatal(plan.Problems)
	}
	live := &lwsv1.LeaderWorkerSet{ObjectMeta: metav1.ObjectMeta{Name: "c-0", Namespace: "ns"}}
	in := input.FromDeployment(c, serving(alone), nil)
	templates, problems := standingGroup(live, observe.Group{}).render(in)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	live.Spec.LeaderWorkerTemplate.WorkerTemplate, live.Spec.LeaderWorkerTemplate.LeaderTemplate = *templates[0], templates[1]
	came := serving(input.World{Volcano: true})
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DynamoComponentDeployment)
		keeps  bool
	}{
		"nothing else changed":         {func(*v1alpha1.DynamoComponentDeployment) {}, true},
		"the pods are replaced anyway": {func(c *v1alpha1.DynamoComponentDeployment) { c.Spec.ExtraPodSpec.MainContainer.Image = "j" }, false},
	} {
		changed := c.DeepCopy()
		tc.change(changed)
		if got := standingGroup(live, observe.Group{Serves: true}).keeps(changed, came); got != tc.keeps {
			t.Errorf("%s: it keeps its world: %v", name, got)
		}
	}
	if !standingGroup(live, observe.Group{}).idle {
		t.Error("a group without a pod has something to lose")
	}
}

func TestAWorkloadIsFromAPlanThatItWasAppliedBy(t *testing.T) {
	t.Parallel()
	plan := Desired(twoNodes(2), input.World{}, serving(input.World{}), scheme(t))
	changed := twoNodes(2)
	changed.Spec.ExtraPodSpec.MainContainer.Image = "example.com/another:1"
	another := Desired(changed, input.World{}, serving(input.World{}), scheme(t))
	set, group := made(plan, 1)
	if !standingGroup(set, group).isFrom(plan.Children) {
		t.Error("a group is not from the plan that made it")
	}
	if standingGroup(set, group).isFrom(another.Children) {
		t.Error("a group is from a plan with another image")
	}
	fewer := Desired(twoNodes(1), input.World{}, serving(input.World{}), scheme(t))
	if standingGroup(set, group).isFrom(fewer.Children) {
		t.Error("a group is from a plan that has no place for it")
	}
}

func TestPodsLeadToTheirComponent(t *testing.T) {
	t.Parallel()
	for want, labels := range map[string]map[string]string{
		"g-decode": {names.LabelSelector: "g-decode"},
		"g-worker": {lwsv1.SetNameLabelKey: "g-worker-12"},
		"":         {"grove.io/podclique": "g-0-decode", names.LabelSelector: "g-decode"},
	} {
		got := ""
		for _, request := range OfPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: labels}}) {
			got += request.Name
		}
		if got != want {
			t.Errorf("%s: %s", fmt.Sprint(labels), got)
		}
	}
}
