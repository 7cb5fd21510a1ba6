// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

type adapterStatus = v1alpha1.DynamoGraphDeploymentScalingAdapterStatus

// Scaling is a change of a graph's number.
type Scaling struct {
	From, To int32
	At       metav1.Time
}

// Pass is what one pass over an adapter found and did.
type Pass struct {
	Seen
	Target
	Applied apply.Result
	// Scaled is a change that no status tells of yet, nil for none.
	Scaled *Scaling
}

// isPending tells that a request will be repeated in a moment. Until then there is nothing to say.
func (p Pass) isPending() bool {
	return p.Applied.Wake > 0 || (len(p.Applied.Failures) > 0 && len(p.Applied.Reported()) == 0)
}

// Status is the status of an adapter after a pass. It is computed whole. An adapter that scales nothing has neither a
// selector nor replicas, so that an autoscaler does not take it for one that does.
func Status(a *adapterObject, p Pass, now metav1.Time) adapterStatus {
	failures := p.Applied.Reported()
	next := adapterStatus{LastScaleTime: a.Status.LastScaleTime, ObservedGeneration: a.Generation}
	if p.Scaled != nil {
		next.LastScaleTime = new(p.Scaled.At.Rfc3339Copy())
	}
	if p.Problem == "" {
		next.Replicas = p.Graph.Status.Services[a.Spec.DGDRef.ServiceName].Replicas
		next.Selector = selector(a.Spec.DGDRef, p.Service.IsMultinode())
	}
	set := conditions.NewSet(a.Generation, a.Status.Conditions, now)
	switch {
	case p.Problem != "":
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, p.Reason, p.Problem)
		if p.Reason != conditions.GraphNotFound { // a graph may be on its way, as part of what the adapter came with
			set.Stall(p.Reason, p.Problem)
		}
	case len(failures) > 0:
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.UpdateFailed, conditions.Summary(failures))
		set.Stall(conditions.UpdateFailed, conditions.Summary(failures))
	default:
		set.Put(v1alpha1.ConditionReady, metav1.ConditionTrue, conditions.Scaled,
			fmt.Sprintf("Service %s of DynamoGraphDeployment %s is set to %d replicas", a.Spec.DGDRef.ServiceName, a.Spec.DGDRef.Name, a.Spec.Replicas))
	}
	next.Conditions = set.Sorted()
	return next
}

// selector selects the pods whose metrics speak for a service. A replica of several nodes is one to an autoscaler, and its
// leader is the pod that takes requests.
func selector(ref v1alpha1.DynamoGraphDeploymentServiceRef, multinode bool) string {
	text := names.LabelGraph + "=" + ref.Name + "," + names.LabelComponent + "=" + ref.ServiceName
	if multinode {
		text += "," + names.LabelRole + "=" + names.Leader
	}
	return text
}

// isTransition tells whether something other than a count changed. Counts can wait for each other.
func isTransition(before, after adapterStatus) bool {
	return before.Selector != after.Selector || !before.LastScaleTime.Equal(after.LastScaleTime) ||
		conditions.Transitioned(before.Conditions, after.Conditions)
}

// Events are what users should hear of a pass: that a graph was changed, and why a number did not get there.
func Events(a *adapterObject, next adapterStatus, scaled *Scaling) []statusio.Event {
	var events []statusio.Event
	if scaled != nil {
		events = append(events, statusio.Event{
			Type: corev1.EventTypeNormal, Reason: conditions.Scaled, Action: "Scale",
			Note: fmt.Sprintf("Service %s of DynamoGraphDeployment %s was scaled from %d to %d",
				a.Spec.DGDRef.ServiceName, a.Spec.DGDRef.Name, scaled.From, scaled.To),
		})
	}
	ready := conditions.Find(next.Conditions, v1alpha1.ConditionReady)
	was := conditions.Find(a.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue ||
		(was != nil && was.Reason == ready.Reason && was.ObservedGeneration == ready.ObservedGeneration) {
		return events
	}
	return append(events, statusio.Event{Type: corev1.EventTypeWarning, Reason: conditions.UpdateFailed, Action: "Scale", Note: ready.Message})
}
