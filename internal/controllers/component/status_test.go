// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// rolledOut is a Deployment all of whose three replicas are new and available.
func rolledOut() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	}
}

func TestAvailableOnlyWhenEveryReplicaIsNewAndServes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   string // part of the message, empty for available
	}{
		"rolled out":               {func(*appsv1.Deployment) {}, ""},
		"replicas unset means one": {func(d *appsv1.Deployment) { d.Spec.Replicas = nil; d.Status.Replicas = 1 }, ""},
		"wants none":               {func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0); d.Status = appsv1.DeploymentStatus{} }, ""},
		"paused":                   {func(d *appsv1.Deployment) { d.Spec.Paused = true }, "paused"},
		"not processed":            {func(d *appsv1.Deployment) { d.Generation = 3 }, "has not been processed"},
		"old replicas serve":       {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }, "1 of 3 replicas are updated"},
		"new ones do not serve":    {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 2 }, "2 of 3 replicas are available"},
		"old ones still there":     {func(d *appsv1.Deployment) { d.Status.Replicas = 4 }, "1 old replicas"},
		"quota": {func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 0
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
				Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: gpus",
			})
		}, "exceeded quota: gpus"},
		"says it is unavailable": {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, "does not report itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := rolledOut()
			tc.change(d)
			c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
			got := Status(c, apply.Result{}, Seen{Deployment: d}, now)
			available := conditions.Find(got.Conditions, v1alpha1.ConditionAvailable)
			if (available.Status == metav1.ConditionTrue) != (tc.want == "") || !strings.Contains(available.Message, tc.want) {
				t.Errorf("Available is %s: %q, want ...%q...", available.Status, available.Message, tc.want)
			}
			if ready := conditions.Find(got.Conditions, v1alpha1.ConditionReady); ready.Status != available.Status {
				t.Errorf("Ready is %s, Available is %s", ready.Status, available.Status)
			}
			if got.ObservedGeneration != 5 {
				t.Errorf("observed generation %d", got.ObservedGeneration)
			}
		})
	}
}

func TestTheObservedGenerationAdvancesWithAVerdictAboutIt(t *testing.T) {
	t.Parallel()
	failed := func(err error) apply.Result { return apply.Result{Failures: []apply.Failure{{Err: err}}} }
	refused := field.ErrorList{field.Required(field.NewPath("spec"), "x")}
	for name, tc := range map[string]struct {
		status func(*v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus
		want   int64
		stall  string
	}{
		"everything was applied": {func(c *v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus {
			return Status(c, apply.Result{}, Seen{}, now)
		}, 5, ""},
		"a request is repeated": {func(c *v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus {
			return Status(c, failed(apierrors.NewTooManyRequests("later", 1)), Seen{}, now)
		}, 4, ""},
		"a change is held back": {func(c *v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus {
			return Status(c, apply.Result{Held: []string{"Deployment c"}}, Seen{Paused: true}, now)
		}, 4, ""},
		"somebody has to free a name": {func(c *v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus {
			return Status(c, failed(&apply.NameTakenError{Holder: "Deployment x"}), Seen{}, now)
		}, 5, conditions.ReconcileError},
		"somebody has to change the spec": {func(c *v1alpha1.DynamoComponentDeployment) v1alpha1.DynamoComponentDeploymentStatus {
			return Refused(c, refused, Seen{}, now)
		}, 5, conditions.ValidationFailed},
	} {
		c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
		c.Status.ObservedGeneration = 4
		got := tc.status(c)
		if got.ObservedGeneration != tc.want {
			t.Errorf("%s: observed generation %d, want %d", name, got.ObservedGeneration, tc.want)
		}
		if s := conditions.Find(got.Conditions, v1alpha1.ConditionStalled); (s == nil) != (tc.stall == "") || s != nil && s.Reason != tc.stall {
			t.Errorf("%s: stalled %v, want %q", name, s, tc.stall)
		}
	}
}

func TestOnlyAComponentOfAGraphThatWasJustMadeHasNothingToTell(t *testing.T) {
	t.Parallel()
	fail := []apply.Failure{{Err: apierrors.NewBadRequest("no")}}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.DynamoComponentDeployment, *apply.Result, *Seen)
		want   bool
	}{
		"just made": {func(*v1alpha1.DynamoComponentDeployment, *apply.Result, *Seen) {}, true},
		"of a user": {func(c *v1alpha1.DynamoComponentDeployment, _ *apply.Result, _ *Seen) {
			c.OwnerReferences = nil
		}, false},
		"failed":    {func(_ *v1alpha1.DynamoComponentDeployment, r *apply.Result, _ *Seen) { r.Failures = fail }, false},
		"held back": {func(_ *v1alpha1.DynamoComponentDeployment, r *apply.Result, _ *Seen) { r.Held = []string{"c"} }, false},
		"fought over": {func(_ *v1alpha1.DynamoComponentDeployment, r *apply.Result, _ *Seen) {
			r.Contested = map[string]string{"c": "x"}
		}, false},
		"paused":       {func(_ *v1alpha1.DynamoComponentDeployment, _ *apply.Result, s *Seen) { s.Paused = true }, false},
		"nothing runs": {func(_ *v1alpha1.DynamoComponentDeployment, _ *apply.Result, s *Seen) { s.Deployment = nil }, false},
		"wants none": {func(_ *v1alpha1.DynamoComponentDeployment, _ *apply.Result, s *Seen) {
			s.Deployment.Spec.Replicas = new(int32(0))
		}, false},
		"reported on": {func(_ *v1alpha1.DynamoComponentDeployment, _ *apply.Result, s *Seen) {
			s.Deployment.Status.ObservedGeneration = 1
		}, false},
		"has pods": {func(_ *v1alpha1.DynamoComponentDeployment, _ *apply.Result, s *Seen) { s.Pods = []*corev1.Pod{{}} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Name: "g-c", OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindDynamoGraphDeployment, Name: "g", Controller: new(true),
			}}}}
			result, seen := apply.Result{}, Seen{Deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}}}
			tc.change(c, &result, &seen)
			if got := unheard(c, result, seen); got != tc.want {
				t.Errorf("unheard is %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAStalledComponentStaysSoWhileARequestIsRepeated(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
	c.Status = Status(c, apply.Result{Failures: []apply.Failure{{Err: &apply.NameTakenError{Holder: "Deployment x"}}}}, Seen{}, now)
	was := conditions.Find(c.Status.Conditions, v1alpha1.ConditionStalled)
	repeated := apply.Result{Failures: []apply.Failure{{Err: apierrors.NewTooManyRequests("later", 1)}}}
	got := Status(c, repeated, Seen{}, metav1.NewTime(now.Add(time.Minute)))
	if diff := cmp.Diff(was, conditions.Find(got.Conditions, v1alpha1.ConditionStalled)); diff != "" {
		t.Errorf("stalled (-was +is):\n%s", diff)
	}
	c.Generation++
	if s := conditions.Find(Status(c, repeated, Seen{}, now).Conditions, v1alpha1.ConditionStalled); s != nil {
		t.Errorf("nothing is known of the next generation, and yet: %v", s)
	}
}

func TestAFailedChildIsNamed(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
	got := Status(c, apply.Result{Failures: []apply.Failure{{Err: &apply.NameTakenError{Holder: "Deployment x"}}}}, Seen{}, now)
	if a := conditions.Find(got.Conditions, v1alpha1.ConditionAvailable); a.Reason != conditions.Reconciling || !strings.Contains(a.Message, "exists already") {
		t.Errorf("Available says %s: %s", a.Reason, a.Message)
	}
	if got.Service == nil || got.Service.ComponentKind == "" {
		t.Errorf("service status %v has no kind", got.Service)
	}
}

func TestAFightIsToldAsLongAsItLasts(t *testing.T) {
	t.Parallel()
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
	fought := apply.Result{Contested: map[string]string{"Deployment c": "kubectl keeps changing spec.replicas, which is set here"}}
	during := Status(c, fought, Seen{Deployment: rolledOut()}, now)
	contested := conditions.Find(during.Conditions, v1alpha1.ConditionContested)
	if contested == nil || !strings.HasPrefix(contested.Message, "Deployment c: kubectl keeps changing spec.replicas") {
		t.Errorf("contested: %v", contested)
	}
	if ready := conditions.Find(during.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionFalse ||
		!strings.Contains(ready.Message, "kubectl") || during.ObservedGeneration != 5 {
		t.Errorf("ready: %v, observed generation %d", ready, during.ObservedGeneration)
	}
	events := Events(c.Status, during)
	if len(events) != 1 || events[0].Reason != v1alpha1.ConditionContested || events[0].Note != contested.Message {
		t.Errorf("events: %v", events)
	}
	if more := Events(during, Status(c, fought, Seen{Deployment: rolledOut()}, now)); len(more) > 0 {
		t.Errorf("a fight that goes on is told again: %v", more)
	}
	c.Status = during
	after := Status(c, apply.Result{}, Seen{Deployment: rolledOut()}, now)
	if conditions.Find(after.Conditions, v1alpha1.ConditionContested) != nil || !conditions.IsTrue(after.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("after it: %v", after.Conditions)
	}
}
