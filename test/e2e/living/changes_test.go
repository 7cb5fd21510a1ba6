// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package living

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// history is every state of a graph that anybody could have seen.
type history struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	states []v1alpha1.DynamoGraphDeployment
}

func record(t *testing.T, ns string) *history {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w, err := api.Watch(ctx, &v1alpha1.DynamoGraphDeploymentList{}, client.InNamespace(ns))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	h := &history{cancel: cancel}
	h.done.Go(func() {
		for event := range w.ResultChan() {
			if g, ok := event.Object.(*v1alpha1.DynamoGraphDeployment); ok {
				h.states = append(h.states, *g)
			}
		}
	})
	return h
}

func (h *history) end() []v1alpha1.DynamoGraphDeployment {
	h.cancel()
	h.done.Wait()
	return h.states
}

// readiness is the Ready condition over time, without repetitions.
func readiness(states []v1alpha1.DynamoGraphDeployment) []string {
	var seen []string
	for i := range states {
		if c := meta.FindStatusCondition(states[i].Status.Conditions, v1alpha1.ConditionReady); c != nil {
			if now := fmt.Sprintf("%d %s", c.ObservedGeneration, c.Status); len(seen) == 0 || seen[len(seen)-1] != now {
				seen = append(seen, now)
			}
		}
	}
	return seen
}

func TestAnUpdateRollsOneServiceAndIsReadyWhenItServes(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Change("Decode", builders.Replicas(3)).Obj())
	was := harness.AwaitReady(t, ns, "chat").Generation
	frontend, decode := pods(t, ns, "Frontend"), pods(t, ns, "Decode")
	seen := record(t, ns)
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	})
	is := harness.AwaitReady(t, ns, "chat").Generation
	for name, pod := range pods(t, ns, "Decode") {
		if _, old := decode[name]; old || pod.Spec.Containers[0].Image != "registry.example.com/dynamo:2" {
			t.Errorf("the graph is Ready, and pod %s is an old one", name)
		}
	}
	for name, pod := range pods(t, ns, "Frontend") {
		if frontend[name].UID != pod.UID {
			t.Errorf("pod %s of the frontend is new", name)
		}
	}
	states := seen.end()
	want := []string{fmt.Sprintf("%d True", was), fmt.Sprintf("%d False", is), fmt.Sprintf("%d True", is)}
	if got := readiness(states); !slices.Equal(got, want) {
		t.Errorf("Ready went %v, want %v", got, want)
	}
	contradictions(t, states)
}

// contradictions fails on any state that cannot be true, or that was left and taken again.
func contradictions(t *testing.T, states []v1alpha1.DynamoGraphDeployment) {
	t.Helper()
	var messages []string
	for i := range states {
		s := states[i].Status
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		available := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionAvailable)
		if ready == nil {
			continue
		}
		if ready.Status == metav1.ConditionTrue && (available == nil || available.Status != metav1.ConditionTrue || s.State != v1alpha1.GraphStateSuccessful) {
			t.Errorf("Ready, but Available is %v and the state %q", available, s.State)
		}
		judged := ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == states[i].Generation
		miscounted(t, &states[i], judged)
		if message := fmt.Sprintf("%d %s", ready.ObservedGeneration, ready.Message); len(messages) == 0 || messages[len(messages)-1] != message {
			if slices.Contains(messages, message) {
				t.Errorf("it said %q, then %q, then the first again", message, messages[len(messages)-1])
			}
			messages = append(messages, message)
		}
	}
}

// miscounted fails on services without kind or name, and on those of a ready graph that have the wrong number of replicas.
func miscounted(t *testing.T, g *v1alpha1.DynamoGraphDeployment, ready bool) {
	t.Helper()
	for name, service := range g.Status.Services {
		if service.ComponentKind == "" || service.ComponentName == "" {
			t.Errorf("service %s has no kind or name: %+v", name, service)
		}
		if ready && service.UpdatedReplicas != *g.Spec.Services[name].Replicas {
			t.Errorf("Ready, but %s has %d updated replicas", name, service.UpdatedReplicas)
		}
	}
}

// restarts waits for the end of a restart.
func restarts(t *testing.T, ns, id string) {
	t.Helper()
	harness.Eventually(t, patience, "restart "+id+" completed", func() (bool, string) {
		r := graph(t, ns).Status.Restart
		return r != nil && r.ObservedID == id && r.Phase == v1alpha1.RestartPhaseCompleted, fmt.Sprintf("%+v", r)
	})
}

func steps(states []v1alpha1.DynamoGraphDeployment) []string {
	var seen []string
	for i := range states {
		r := states[i].Status.Restart
		if r == nil {
			continue
		}
		if now := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.ObservedID, r.Phase, strings.Join(r.InProgress, ","))); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
	}
	return seen
}

func three(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, "chat").Service("Prefill", v1alpha1.ComponentTypePrefill, builders.Args("python3 -m dynamo.vllm"), builders.Replicas(2)).Obj()
}

func TestRestartsGoAsAskedAndEndWhenEveryPodWasReplaced(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		strategy *v1alpha1.RestartStrategy
		want     []string
	}{
		"sequential": {nil, []string{"r Restarting Decode", "r Restarting Frontend", "r Restarting Prefill", "r Completed"}},
		"in an order": {
			&v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeSequential, Order: []string{"Prefill", "Decode", "Frontend"}},
			[]string{"r Restarting Prefill", "r Restarting Decode", "r Restarting Frontend", "r Completed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.StartOperator(t, ns)
			create(t, three(ns))
			harness.AwaitReady(t, ns, "chat")
			before := map[string]bool{}
			for _, service := range []string{"Frontend", "Decode", "Prefill"} {
				for name := range pods(t, ns, service) {
					before[name] = true
				}
			}
			seen := record(t, ns)
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Restart = &v1alpha1.Restart{ID: "r", Strategy: tc.strategy}
			})
			restarts(t, ns, "r")
			for _, service := range []string{"Frontend", "Decode", "Prefill"} {
				for name, pod := range pods(t, ns, service) {
					if before[name] || pod.Annotations[names.AnnotationRestartAt] != "r" {
						t.Errorf("the restart is Completed, and pod %s was not replaced", name)
					}
				}
			}
			harness.AwaitReady(t, ns, "chat")
			states := seen.end()
			if got := steps(states); !slices.Equal(got, tc.want) {
				t.Errorf("steps %v, want %v", got, tc.want)
			}
			contradictions(t, states)
		})
	}
}

func TestANewRestartSupersedesAndARemovedOneIsRemembered(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	g := three(ns)
	held(g.Spec.Services["Decode"]) // its pods never run, so its restart never ends
	create(t, g)
	awaitCondition(t, ns, v1alpha1.ConditionReady, "a status", func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse })
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Restart = &v1alpha1.Restart{ID: "one"} })
	says(t, ns, "restart one: waiting for Decode (0 of 3 done)")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Restart = &v1alpha1.Restart{ID: "two", Strategy: &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeParallel}}
	})
	says(t, ns, "restart two: waiting for Decode (2 of 3 done)")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ExtraPodMetadata = nil })
	restarts(t, ns, "two")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Restart = nil })
	harness.AwaitReady(t, ns, "chat")
	if r := graph(t, ns).Status.Restart; r == nil || r.ObservedID != "two" || r.Phase != v1alpha1.RestartPhaseCompleted {
		t.Errorf("after the request was removed: %+v", r)
	}
}

func TestAPausedGraphIsLeftAloneAndSaysWhatWaits(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationReconcile, names.Paused)
	})
	awaitCondition(t, ns, v1alpha1.ConditionPaused, "paused, nothing waits", func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Message, "Nothing is held back")
	})
	if !meta.IsStatusConditionTrue(graph(t, ns).Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("a graph that is paused and as it should be is not Ready")
	}
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(2)) })
	awaitCondition(t, ns, v1alpha1.ConditionPaused, "a change waits", func(c metav1.Condition) bool {
		return strings.HasPrefix(c.Message, "1 changes are held back: DynamoComponentDeployment chat-decode")
	})
	says(t, ns, "the graph is paused, and changes are held back")
	// What somebody does to the components of a paused graph stays, too.
	var dcd v1alpha1.DynamoComponentDeployment
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-frontend"}, &dcd); err != nil {
		t.Fatal(err)
	}
	dcd.Spec.Replicas = new(int32(3))
	if err := harness.Client(t).Update(t.Context(), &dcd); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "the component says so", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(&dcd), &dcd); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(dcd.Status.Conditions, v1alpha1.ConditionPaused)
		return c != nil && strings.Contains(c.Message, "Deployment chat-frontend"), fmt.Sprint(dcd.Status.Conditions)
	})
	if n := len(pods(t, ns, "Frontend")) + len(pods(t, ns, "Decode")); n != 2 {
		t.Errorf("%d pods while paused, want 2", n)
	}
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Annotations, names.AnnotationReconcile) })
	harness.AwaitReady(t, ns, "chat")
	if n := len(pods(t, ns, "Decode")); n != 2 {
		t.Errorf("%d pods after the pause, want 2", n)
	}
	if meta.FindStatusCondition(graph(t, ns).Status.Conditions, v1alpha1.ConditionPaused) != nil {
		t.Error("still Paused")
	}
}
