// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

const decodePods = "nvidia.com/dynamo-graph-deployment-name=chat,nvidia.com/dynamo-component=Decode"

var (
	now     = metav1.NewTime(born.Add(time.Minute))
	earlier = metav1.NewTime(born.Add(time.Second))
)

// pass is one in which the graph already had the number, and had two of the three replicas.
func pass() Pass {
	g := chat()
	g.Spec.Services["Decode"].Replicas = new(int32(3))
	g.Status.Services = map[string]v1alpha1.ServiceReplicaStatus{"Decode": {Replicas: 2}, "Frontend": {Replicas: 7}}
	return Pass{Seen: Seen{Graph: g}, Target: Target{Service: g.Spec.Services["Decode"], Has: 3}}
}

func ready(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, ObservedGeneration: 2, LastTransitionTime: now,
	}}
}

// stalled adds to a refusal that somebody has to do something about it.
func stalled(conditions []metav1.Condition) []metav1.Condition {
	same := conditions[0]
	same.Type, same.Status = v1alpha1.ConditionStalled, metav1.ConditionTrue
	return append(conditions, same)
}

func refusedBy(err error) apply.Result {
	key := recent.Key{GroupKind: graphKind, NamespacedName: types.NamespacedName{Name: "chat"}}
	return apply.Result{Failures: []apply.Failure{{Key: key, Err: err}}}
}

func TestStatusShowsWhatIsThereAndWhyAServiceIsNotScaled(t *testing.T) {
	t.Parallel()
	isSet := ready(metav1.ConditionTrue, conditions.Scaled, "Service Decode of DynamoGraphDeployment chat is set to 3 replicas")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "dynamographdeployments"}, "chat", errors.New("no"))
	for name, tc := range map[string]struct {
		change func(*adapterObject, *Pass)
		want   adapterStatus
	}{
		"observed replicas, not wanted ones": {
			change: func(*adapterObject, *Pass) {},
			want:   adapterStatus{Replicas: 2, Selector: decodePods, ObservedGeneration: 2, Conditions: isSet},
		},
		"a service that was never counted": {
			change: func(_ *adapterObject, p *Pass) { p.Graph.Status.Services = nil },
			want:   adapterStatus{Selector: decodePods, ObservedGeneration: 2, Conditions: isSet},
		},
		"leaders speak for replicas of several nodes": {
			change: func(_ *adapterObject, p *Pass) { p.Service.Multinode = &v1alpha1.MultinodeSpec{NodeCount: 2} },
			want:   adapterStatus{Replicas: 2, Selector: decodePods + ",role=leader", ObservedGeneration: 2, Conditions: isSet},
		},
		"scaled just now": {
			change: func(a *adapterObject, p *Pass) {
				a.Status.LastScaleTime, p.Scaled = &earlier, &Scaling{From: 1, To: 3, At: now}
			},
			want: adapterStatus{Replicas: 2, Selector: decodePods, LastScaleTime: &now, ObservedGeneration: 2, Conditions: isSet},
		},
		"scaled before": {
			change: func(a *adapterObject, _ *Pass) { a.Status.LastScaleTime = &earlier },
			want:   adapterStatus{Replicas: 2, Selector: decodePods, LastScaleTime: &earlier, ObservedGeneration: 2, Conditions: isSet},
		},
		"an adapter without a target has nothing for autoscalers": {
			change: func(a *adapterObject, p *Pass) {
				a.Status = adapterStatus{Replicas: 2, Selector: decodePods, LastScaleTime: &earlier, ObservedGeneration: 1}
				*p = Pass{Target: Target{Reason: conditions.GraphNotFound, Problem: "no graph"}}
			},
			want: adapterStatus{LastScaleTime: &earlier, ObservedGeneration: 2, Conditions: ready(metav1.ConditionFalse, conditions.GraphNotFound, "no graph")},
		},
		"a service that no graph will get": {
			change: func(_ *adapterObject, p *Pass) {
				*p = Pass{Target: Target{Reason: conditions.ServiceNotFound, Problem: "no service"}}
			},
			want: adapterStatus{ObservedGeneration: 2, Conditions: stalled(ready(metav1.ConditionFalse, conditions.ServiceNotFound, "no service"))},
		},
		"a refusal in the server's words": {
			change: func(_ *adapterObject, p *Pass) { p.Applied = refusedBy(forbidden) },
			want: adapterStatus{
				Replicas: 2, Selector: decodePods, ObservedGeneration: 2,
				Conditions: stalled(ready(metav1.ConditionFalse, conditions.UpdateFailed,
					`DynamoGraphDeployment chat: the API server refused it: dynamographdeployments "chat" is forbidden: no`)),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, p := adapter("a"), pass()
			tc.change(a, &p)
			if diff := cmp.Diff(tc.want, Status(a, p, now)); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingIsSaidWhileARequestIsRepeated(t *testing.T) {
	t.Parallel()
	kind := schema.GroupResource{Resource: "dynamographdeployments"}
	for name, tc := range map[string]struct {
		applied apply.Result
		want    bool
	}{
		"done":         {apply.Result{}, false},
		"conflict":     {apply.Result{Wake: time.Second}, true},
		"overload":     {refusedBy(apierrors.NewTooManyRequests("later", 1)), true},
		"not allowed":  {refusedBy(apierrors.NewForbidden(kind, "chat", errors.New("no"))), false},
		"not accepted": {refusedBy(apierrors.NewInvalid(graphKind, "chat", nil)), false},
	} {
		if got := (Pass{Applied: tc.applied}).isPending(); got != tc.want {
			t.Errorf("%s: pending is %v, want %v", name, got, tc.want)
		}
	}
}

func TestEventsTellOfChangesAndOfEachProblemOnce(t *testing.T) {
	t.Parallel()
	scaled := statusio.Event{
		Type: corev1.EventTypeNormal, Reason: conditions.Scaled, Action: "Scale", Note: "Service Decode of DynamoGraphDeployment chat was scaled from 1 to 3",
	}
	failed := statusio.Event{Type: corev1.EventTypeWarning, Reason: conditions.UpdateFailed, Action: "Scale", Note: "no graph"}
	missing := ready(metav1.ConditionFalse, conditions.GraphNotFound, "no graph")
	isSet := ready(metav1.ConditionTrue, conditions.Scaled, "set")
	olderSpec := ready(metav1.ConditionFalse, conditions.GraphNotFound, "no graph")
	olderSpec[0].ObservedGeneration = 1
	for name, tc := range map[string]struct {
		before, after []metav1.Condition
		change        *Scaling
		want          []statusio.Event
	}{
		"nothing happened":             {before: isSet, after: isSet},
		"scaled":                       {before: isSet, after: isSet, change: &Scaling{From: 1, To: 3}, want: []statusio.Event{scaled}},
		"not to be had from the start": {after: missing, want: []statusio.Event{failed}},
		"lost":                         {before: isSet, after: missing, want: []statusio.Event{failed}},
		"still lost":                   {before: missing, after: missing},
		"lost under the next spec":     {before: olderSpec, after: missing, want: []statusio.Event{failed}},
		"found":                        {before: missing, after: isSet},
	} {
		a := adapter("a")
		a.Status.Conditions = tc.before
		if diff := cmp.Diff(tc.want, Events(a, adapterStatus{Conditions: tc.after}, tc.change)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
	}
}

func TestCountsAloneAreNoTransition(t *testing.T) {
	t.Parallel()
	base := adapterStatus{Replicas: 1, Selector: decodePods, LastScaleTime: &earlier, Conditions: ready(metav1.ConditionTrue, conditions.Scaled, "set")}
	for name, tc := range map[string]struct {
		change func(*adapterStatus)
		want   bool
	}{
		"nothing":    {func(*adapterStatus) {}, false},
		"a replica":  {func(s *adapterStatus) { s.Replicas = 2 }, false},
		"a selector": {func(s *adapterStatus) { s.Selector += ",role=leader" }, true},
		"a scaling":  {func(s *adapterStatus) { s.LastScaleTime = &now }, true},
		"a verdict":  {func(s *adapterStatus) { s.Conditions[0].Status = metav1.ConditionFalse }, true},
	} {
		after := *base.DeepCopy()
		tc.change(&after)
		if got := isTransition(base, after); got != tc.want {
			t.Errorf("%s: a transition is %v, want %v", name, got, tc.want)
		}
	}
}

func TestAScalingStaysUntoldUntilAStatusTellsOfIt(t *testing.T) {
	t.Parallel()
	var u untold
	if got := u.get("a"); got != nil {
		t.Errorf("there is %v to tell before anything was scaled", got)
	}
	u.add("a", Scaling{From: 1, To: 2, At: earlier})
	u.add("a", Scaling{From: 2, To: 3, At: now})
	if diff := cmp.Diff(&Scaling{From: 1, To: 3, At: now}, u.get("a")); diff != "" {
		t.Errorf("two scalings in a row (-want +got):\n%s", diff)
	}
	if got := u.get("b"); got != nil {
		t.Errorf("another adapter tells of %v", got)
	}
	u.drop("a")
	if got := u.get("a"); got != nil {
		t.Errorf("%v is told twice", got)
	}
}
