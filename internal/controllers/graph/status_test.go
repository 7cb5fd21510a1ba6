// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// reported is a component of graph "g" as it reports itself.
func reported(name string, generation, observed int64, available metav1.ConditionStatus, replicas int32) *v1alpha1.DynamoComponentDeployment {
	return &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: generation},
		Status: v1alpha1.DynamoComponentDeploymentStatus{
			ObservedGeneration: observed,
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionAvailable, Status: available, Message: "Deployment " + name + ": 0 of 1 replicas are available", ObservedGeneration: observed,
			}},
			Service: &v1alpha1.ServiceReplicaStatus{
				ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: name, AvailableReplicas: &replicas,
			},
		},
	}
}

func live(components ...*v1alpha1.DynamoComponentDeployment) apply.Result {
	r := apply.Result{Live: apply.Children{}}
	for _, c := range components {
		r.Live[recent.KeyOf(componentKind, c)] = c
	}
	return r
}

// statusOf is the status of a graph on components.
func statusOf(g *v1alpha1.DynamoGraphDeployment, applied apply.Result) v1alpha1.DynamoGraphDeploymentStatus {
	return Status(g, applied, seenIn(g, applied), rollout.Restart{}, now)
}

func seenIn(g *v1alpha1.DynamoGraphDeployment, applied apply.Result) Seen {
	seen := Seen{Services: map[string]Service{}}
	for service := range g.Spec.Services {
		name := names.Component(g.Name, service)
		c, _ := applied.Live[recent.Key{GroupKind: componentKind, NamespacedName: types.NamespacedName{Namespace: g.Namespace, Name: name}}].(*v1alpha1.DynamoComponentDeployment)
		seen.Services[service] = asComponent(name, c)
	}
	return seen
}

func TestStatusNamesWhatKeepsAGraphFromBeingReady(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "x", errors.New("no"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "x", errors.New("changed"))
	failed := func(r apply.Result, err error) apply.Result {
		r.Failures = []apply.Failure{{Key: recent.Key{GroupKind: componentKind}, Err: err}}
		return r
	}
	ready := live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionTrue, 1))
	for name, tc := range map[string]struct {
		applied               apply.Result
		state, reason, naming string
		available             metav1.ConditionStatus
	}{
		"all ready":           {ready, v1alpha1.GraphStateSuccessful, conditions.AllResourcesReady, "All", metav1.ConditionTrue},
		"nothing made yet":    {live(), v1alpha1.GraphStatePending, conditions.SomeResourcesNotReady, "g-decode: waiting", metav1.ConditionFalse},
		"one not ready":       {live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionFalse, 0)), v1alpha1.GraphStatePending, conditions.SomeResourcesNotReady, "g-decode: Deployment g-decode: 0 of 1", metav1.ConditionFalse},
		"degraded but serves": {live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionFalse, 1)), v1alpha1.GraphStatePending, conditions.SomeResourcesNotReady, "g-decode", metav1.ConditionTrue},
		"ready in the past":   {live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 2, 1, metav1.ConditionTrue, 1)), v1alpha1.GraphStatePending, conditions.SomeResourcesNotReady, "g-decode: its latest spec", metav1.ConditionTrue},
		"refused by server":   {failed(ready, forbidden), v1alpha1.GraphStateFailed, conditions.ReconcileFailed, "forbidden", metav1.ConditionTrue},
		"will pass by itself": {failed(ready, conflict), v1alpha1.GraphStatePending, conditions.SomeResourcesNotReady, "Changes are being applied", metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := builders.TwoComponents("ns", "g").Obj()
			g.Generation = 1
			got := statusOf(g, tc.applied)
			c := conditions.Find(got.Conditions, v1alpha1.ConditionReady)
			if got.State != tc.state || c.Reason != tc.reason || !strings.Contains(c.Message, tc.naming) {
				t.Errorf("got state %q, reason %q, message %q; want %q, %q, ...%q...", got.State, c.Reason, c.Message, tc.state, tc.reason, tc.naming)
			}
			if (c.Status == metav1.ConditionTrue) != (tc.state == v1alpha1.GraphStateSuccessful) {
				t.Errorf("Ready is %s in state %s", c.Status, got.State)
			}
			if a := conditions.Find(got.Conditions, v1alpha1.ConditionAvailable); a.Status != tc.available {
				t.Errorf("Available is %s (%s), want %s", a.Status, a.Message, tc.available)
			}
			for service, s := range got.Services {
				if s.ComponentKind == "" || s.ComponentName == "" {
					t.Errorf("service %s has no kind or name: %v", service, s)
				}
			}
			if len(got.Services) != 2 || got.ObservedGeneration != 1 {
				t.Errorf("%d services, observed generation %d", len(got.Services), got.ObservedGeneration)
			}
		})
	}
}

func TestOnlyAGraphThatWasJustMadeHasNothingToTell(t *testing.T) {
	t.Parallel()
	told := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DynamoGraphDeployment, *apply.Result, *Seen, *v1alpha1.DynamoComponentDeployment)
		want   bool
	}{
		"just made": {func(*v1alpha1.DynamoGraphDeployment, *apply.Result, *Seen, *v1alpha1.DynamoComponentDeployment) {}, true},
		"all have told": {func(_ *v1alpha1.DynamoGraphDeployment, _ *apply.Result, _ *Seen, last *v1alpha1.DynamoComponentDeployment) {
			last.Status.Conditions = told
		}, false},
		"failed": {func(_ *v1alpha1.DynamoGraphDeployment, r *apply.Result, _ *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			r.Failures = []apply.Failure{{}}
		}, false},
		"held back": {func(_ *v1alpha1.DynamoGraphDeployment, r *apply.Result, _ *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			r.Held = []string{"c"}
		}, false},
		"fought over": {func(_ *v1alpha1.DynamoGraphDeployment, r *apply.Result, _ *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			r.Contested = map[string]string{"c": "x"}
		}, false},
		"paused": {func(g *v1alpha1.DynamoGraphDeployment, _ *apply.Result, _ *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			g.Annotations = map[string]string{names.AnnotationReconcile: names.Paused}
		}, false},
		"restarted": {func(g *v1alpha1.DynamoGraphDeployment, _ *apply.Result, _ *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			g.Spec.Restart = &v1alpha1.Restart{ID: "r"}
		}, false},
		"moving": {func(_ *v1alpha1.DynamoGraphDeployment, _ *apply.Result, s *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			s.Moving = true
		}, false},
		"host of another": {func(_ *v1alpha1.DynamoGraphDeployment, _ *apply.Result, s *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			s.Clashes = []string{"h"}
		}, false},
		"queue unread": {func(_ *v1alpha1.DynamoGraphDeployment, _ *apply.Result, s *Seen, _ *v1alpha1.DynamoComponentDeployment) {
			s.UnreadQueue = "q"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, last := &v1alpha1.DynamoComponentDeployment{}, &v1alpha1.DynamoComponentDeployment{}
			first.Status.Conditions = told
			g, seen := &v1alpha1.DynamoGraphDeployment{}, Seen{}
			applied := apply.Result{Live: apply.Children{
				recent.Key{NamespacedName: types.NamespacedName{Name: "first"}}: first, recent.Key{NamespacedName: types.NamespacedName{Name: "last"}}: last,
			}}
			tc.change(g, &applied, &seen, last)
			if got := unheard(g, applied, seen); got != tc.want {
				t.Errorf("unheard is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAQueueThatNobodyMayReadIsNamedWhileItMatters(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "g").Obj()
	seen := Seen{OnGrove: true, UnreadQueue: "team", Services: map[string]Service{"Decode": {Why: "podclique/g-0-decode: desired=1, ready=0"}}}
	const hint = `this operator may not read KAI queues: see that there is a queue "team"`
	if got := whyNotReady(g, seen, rollout.Restart{}); !strings.HasSuffix(got, "; "+hint) {
		t.Errorf("not ready: %s", got)
	}
	seen.Services["Decode"] = Service{}
	if got := whyNotReady(g, seen, rollout.Restart{}); got != "" {
		t.Errorf("ready: %s", got)
	}
}

func TestAFailureThatPassesLeavesTheConditionAlone(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "g").Obj()
	ready := live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionTrue, 1))
	g.Status = statusOf(g, ready)
	ready.Failures = []apply.Failure{{Err: apierrors.NewTooManyRequests("slow down", 1)}}
	if diff := cmp.Diff(g.Status, statusOf(g, ready)); diff != "" {
		t.Errorf("status changed:\n%s", diff)
	}
}

func TestAGraphIsStalledWhenSomebodyHasToDoSomething(t *testing.T) {
	t.Parallel()
	stuck := reported("g-decode", 1, 1, metav1.ConditionFalse, 0)
	stuck.Status.Conditions = append(stuck.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue})
	outdated := stuck.DeepCopy()
	outdated.Generation = 2
	slow := reported("g-decode", 1, 1, metav1.ConditionFalse, 0)
	with := func(c *v1alpha1.DynamoComponentDeployment, change func(*apply.Result)) apply.Result {
		r := live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), c)
		change(&r)
		return r
	}
	asIs := func(*apply.Result) {}
	failing := func(err error) func(*apply.Result) {
		return func(r *apply.Result) {
			r.Failures = []apply.Failure{{Key: recent.Key{GroupKind: componentKind}, Err: err}}
		}
	}
	for name, tc := range map[string]struct {
		applied apply.Result
		want    string
	}{
		"a component that comes up":               {with(slow, asIs), ""},
		"a component that is stalled":             {with(stuck, asIs), conditions.ComponentStalled},
		"one that was, and has a new spec":        {with(outdated, asIs), ""},
		"one whose new spec is held back":         {with(stuck, func(r *apply.Result) { r.Held = []string{"DynamoComponentDeployment g-decode"} }), ""},
		"one whose new spec is on its way":        {with(stuck, failing(apierrors.NewTooManyRequests("later", 1))), ""},
		"a child that nobody allows the operator": {with(slow, failing(apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")))), conditions.ReconcileError},
	} {
		g := builders.TwoComponents("ns", "g").Obj()
		g.Generation = 1
		got := ""
		if c := conditions.Find(statusOf(g, tc.applied).Conditions, v1alpha1.ConditionStalled); c != nil {
			got = c.Reason
		}
		if got != tc.want {
			t.Errorf("%s: stalled for %q, want %q", name, got, tc.want)
		}
	}
}

func TestAStalledGraphStaysSoWhileARequestIsRepeated(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "g").Obj()
	g.Generation = 1
	g.Status = Refused(g, field.ErrorList{field.Required(field.NewPath("spec"), "x")}, seenIn(g, live()), now)
	was := conditions.Find(g.Status.Conditions, v1alpha1.ConditionStalled)
	for name, applied := range map[string]apply.Result{
		"nothing is ready":    live(),
		"everything is ready": live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionTrue, 1)),
	} {
		applied.Failures = []apply.Failure{{Err: apierrors.NewTooManyRequests("slow down", 1)}}
		if diff := cmp.Diff(was, conditions.Find(statusOf(g, applied).Conditions, v1alpha1.ConditionStalled)); diff != "" {
			t.Errorf("%s: stalled (-was +is):\n%s", name, diff)
		}
		next := g.DeepCopy()
		next.Generation = 2
		if s := conditions.Find(statusOf(next, applied).Conditions, v1alpha1.ConditionStalled); s != nil {
			t.Errorf("%s: nothing is known of the next generation, and yet: %v", name, s)
		}
	}
}

func TestAServiceScaledToZeroIsReadyAndAvailable(t *testing.T) {
	t.Parallel()
	g := builders.Graph("ns", "g").Service("decode", "worker", builders.Replicas(0)).Obj()
	c := reported("g-decode", 1, 1, metav1.ConditionTrue, 0)
	c.Spec.Replicas = ptr.To[int32](0)
	got := statusOf(g, live(c))
	if !conditions.IsTrue(got.Conditions, v1alpha1.ConditionReady) || !conditions.IsTrue(got.Conditions, v1alpha1.ConditionAvailable) {
		t.Errorf("conditions %v", got.Conditions)
	}
}

func TestARefusedSpecKeepsTheCounts(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "g").Obj()
	counts := live(reported("g-frontend", 0, 0, metav1.ConditionTrue, 3))
	g.Status = statusOf(g, counts)
	before := g.Status.DeepCopy()
	got := Refused(g, field.ErrorList{field.Required(field.NewPath("spec"), "x")}, seenIn(g, counts), now)
	if diff := cmp.Diff(before.Services, got.Services); diff != "" {
		t.Errorf("counts changed:\n%s", diff)
	}
	if got.State != v1alpha1.GraphStateFailed {
		t.Errorf("state %q", got.State)
	}
}

func TestServicesThatLeaveAreToldOfInOneEvent(t *testing.T) {
	t.Parallel()
	with := func(services ...string) v1alpha1.DynamoGraphDeploymentStatus {
		s := v1alpha1.DynamoGraphDeploymentStatus{Services: map[string]v1alpha1.ServiceReplicaStatus{}}
		for _, name := range services {
			s.Services[name] = v1alpha1.ServiceReplicaStatus{}
		}
		return s
	}
	for name, tc := range map[string]struct {
		after v1alpha1.DynamoGraphDeploymentStatus
		want  []string
	}{
		"none": {with("A", "B", "C", "D"), nil},
		"one":  {with("A", "B", "C"), []string{"Service D is no longer part of the graph; what was made for it is removed"}},
		"two":  {with("A", "C"), []string{"Services B, D are no longer part of the graph; what was made for them is removed"}},
	} {
		var got []string
		for _, e := range Events(with("A", "B", "C", "D"), tc.after) {
			got = append(got, e.Note)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsMarkTransitionsOnly(t *testing.T) {
	t.Parallel()
	status := func(generation int64, value metav1.ConditionStatus, reason string) v1alpha1.DynamoGraphDeploymentStatus {
		return v1alpha1.DynamoGraphDeploymentStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: value, Reason: reason, ObservedGeneration: generation, Message: "m"},
		}}
	}
	none := v1alpha1.DynamoGraphDeploymentStatus{}
	waiting := status(1, metav1.ConditionFalse, conditions.SomeResourcesNotReady)
	ready := status(1, metav1.ConditionTrue, conditions.AllResourcesReady)
	for name, tc := range map[string]struct {
		before, after v1alpha1.DynamoGraphDeploymentStatus
		want          string
	}{
		"first look":            {none, waiting, ""},
		"nothing changed":       {waiting, waiting, ""},
		"became ready":          {waiting, ready, "Normal Ready"},
		"stayed ready":          {ready, ready, ""},
		"fell":                  {ready, waiting, "Warning NotReady"},
		"the user changed it":   {ready, status(2, metav1.ConditionFalse, conditions.SomeResourcesNotReady), ""},
		"refused":               {waiting, status(1, metav1.ConditionFalse, conditions.ValidationFailed), "Warning ValidationFailed"},
		"refused again":         {status(1, metav1.ConditionFalse, conditions.ValidationFailed), status(2, metav1.ConditionFalse, conditions.ValidationFailed), "Warning ValidationFailed"},
		"the server refused":    {waiting, status(1, metav1.ConditionFalse, conditions.ReconcileFailed), "Warning ReconcileError"},
		"still refused, silent": {status(1, metav1.ConditionFalse, conditions.ReconcileFailed), status(1, metav1.ConditionFalse, conditions.ReconcileFailed), ""},
	} {
		got := ""
		for _, e := range Events(tc.before, tc.after) {
			got += e.Type + " " + e.Reason
		}
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestAFightOverAChildIsToldByItsGraph(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "g").Obj()
	applied := live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionTrue, 1))
	applied.Contested = map[string]string{"Role x": "kubectl keeps changing rules, which is set here"}
	got := statusOf(g, applied)
	contested := conditions.Find(got.Conditions, v1alpha1.ConditionContested)
	if contested == nil || !strings.Contains(contested.Message, "Role x: kubectl keeps changing rules") {
		t.Errorf("contested: %v", contested)
	}
	if ready := conditions.Find(got.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "kubectl") {
		t.Errorf("ready: %v", ready)
	}
	if events := Events(g.Status, got); len(events) != 1 || events[0].Reason != v1alpha1.ConditionContested {
		t.Errorf("events: %v", events)
	}
}
