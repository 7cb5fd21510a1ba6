// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/explain"
)

var (
	deploymentKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}
	groupKind      = schema.GroupKind{Group: lwsv1.GroupVersion.Group, Kind: "LeaderWorkerSet"}
)

// Seen is what a component's workloads look like.
type Seen struct {
	// Deployment runs a component of single nodes, nil for none.
	Deployment *appsv1.Deployment
	// Sets are the replicas of a component of several nodes by name, and Groups their state.
	Sets   map[string]*lwsv1.LeaderWorkerSet
	Groups map[string]observe.Group
	// Denied are the sets that get no pods, and why.
	Denied map[string]string
	// Waiting are the sets whose turn to be changed has not come.
	Waiting map[string]bool
	// Paused tells that nothing may be changed.
	Paused bool
	// Pods are all pods of the component, in the order of their names.
	Pods []*corev1.Pod
}

// Refused is the status of a component whose spec cannot be rendered. What runs, runs on, and is still counted.
func Refused(c *v1alpha1.DynamoComponentDeployment, problems field.ErrorList, seen Seen, now metav1.Time) v1alpha1.DynamoComponentDeploymentStatus {
	next := counted(c, seen)
	message := problems.ToAggregate().Error()
	set := conditions.NewSet(c.Generation, c.Status.Conditions, now)
	controllers.PutPaused(set, seen.Paused, nil)
	set.Put(v1alpha1.ConditionValid, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Put(v1alpha1.ConditionAvailable, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Stall(conditions.ValidationFailed, message)
	next.Conditions, next.ObservedGeneration = set.Sorted(), c.Generation
	return next
}

// Status is the status of a component whose plan was applied. It is computed whole. The observed generation advances
// when everything of it was applied, or when it is certain that this needs somebody's help: whoever waits for a verdict
// about a generation has one then.
func Status(c *v1alpha1.DynamoComponentDeployment, applied apply.Result, seen Seen, now metav1.Time) v1alpha1.DynamoComponentDeploymentStatus {
	next := counted(c, seen)
	set := conditions.NewSet(c.Generation, c.Status.Conditions, now)
	set.Put(v1alpha1.ConditionValid, metav1.ConditionTrue, conditions.ValidationPassed, "The spec is valid")
	put := func(status metav1.ConditionStatus, reason, message string) {
		set.Put(v1alpha1.ConditionAvailable, status, reason, message)
		set.Put(v1alpha1.ConditionReady, status, reason, message)
	}
	controllers.PutPaused(set, seen.Paused, applied.Held)
	say := wordsFor(c)
	why := controllers.Because(controllers.PutContested(set, applied.Contested), whyNotReady(c, seen))
	if len(applied.Held) > 0 {
		why = strings.TrimSuffix("it is paused, and changes are held back; "+why, "; ")
	}
	failures := applied.Reported()
	isJudged := c.Status.ObservedGeneration == c.Generation
	if len(failures) == 0 && len(applied.Failures) > 0 && isJudged {
		set.Keep(v1alpha1.ConditionStalled)
	}
	switch {
	case len(failures) > 0:
		put(metav1.ConditionFalse, conditions.Reconciling, conditions.Summary(failures))
		set.Stall(conditions.ReconcileError, conditions.Summary(failures))
		next.ObservedGeneration = c.Generation
	case why != "":
		put(metav1.ConditionFalse, say.notReady, why)
	case len(applied.Failures) > 0 && !isJudged:
		put(metav1.ConditionFalse, say.notReady, "Changes are being applied")
	case len(applied.Failures) > 0:
		// A request that will be repeated in a moment changes nothing that was known of this generation.
		set.Keep(v1alpha1.ConditionAvailable)
		set.Keep(v1alpha1.ConditionReady)
	default:
		put(metav1.ConditionTrue, say.ready, say.message)
	}
	next.Conditions = set.Sorted()
	if len(applied.Failures)+len(applied.Held) == 0 {
		next.ObservedGeneration = c.Generation
	}
	return next
}

// unheard tells that everything was made for a component of a graph and that its Deployment has not been looked at yet by the
// controller that carries it out. Nobody but the graph reads such a component, and a status that says so tells it nothing.
func unheard(c *v1alpha1.DynamoComponentDeployment, applied apply.Result, seen Seen) bool {
	d := seen.Deployment
	return c.GetParentGraphDeploymentName() != "" && len(applied.Failures)+len(applied.Held)+len(applied.Contested) == 0 && !seen.Paused &&
		d != nil && d.Status.ObservedGeneration == 0 && ptr.Deref(d.Spec.Replicas, 1) > 0 && len(seen.Pods) == 0
}

// words are how a component's readiness is told.
type words struct{ ready, notReady, message string }

func wordsFor(c *v1alpha1.DynamoComponentDeployment) words {
	if c.IsMultinode() {
		return words{conditions.GroupsReady, conditions.GroupsNotReady, "All LeaderWorkerSets are ready"}
	}
	return words{conditions.DeploymentReady, conditions.DeploymentNotReady, "The Deployment is ready"}
}

// counted starts a status with what is there.
func counted(c *v1alpha1.DynamoComponentDeployment, seen Seen) v1alpha1.DynamoComponentDeploymentStatus {
	next := v1alpha1.DynamoComponentDeploymentStatus{
		ObservedGeneration: c.Status.ObservedGeneration,
		PodSelector:        c.Status.PodSelector,
		Service:            replicas(c.Name, seen.Deployment),
	}
	if c.IsMultinode() {
		next.Service = groupReplicas(c, seen)
	}
	return next
}

// whyNotReady is empty for a component all of whose replicas are of the live generation and serve. Where pods tell a
// cause, that is what is said.
func whyNotReady(c *v1alpha1.DynamoComponentDeployment, seen Seen) string {
	why := whyDeploymentNotReady(seen.Deployment)
	if c.IsMultinode() {
		why = whyGroupsNotReady(c, seen)
	}
	if why == "" {
		return ""
	}
	if cause := explain.Pods(seen.Pods); cause != "" {
		return why + "; " + cause
	}
	return why
}

// replicas are the Deployment's counts. A counter that applies is there even when it is 0.
func replicas(name string, d *appsv1.Deployment) *v1alpha1.ServiceReplicaStatus {
	counts := &v1alpha1.ServiceReplicaStatus{
		ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: name,
		ReadyReplicas: ptr.To[int32](0), AvailableReplicas: ptr.To[int32](0),
	}
	if d != nil {
		counts.Replicas, counts.UpdatedReplicas = d.Status.Replicas, d.Status.UpdatedReplicas
		*counts.ReadyReplicas, *counts.AvailableReplicas = d.Status.ReadyReplicas, d.Status.AvailableReplicas
	}
	return counts
}

// whyDeploymentNotReady is empty for a Deployment all of whose replicas are of the live generation and available.
func whyDeploymentNotReady(d *appsv1.Deployment) string {
	if d == nil {
		return "waiting for its Deployment"
	}
	want := ptr.Deref(d.Spec.Replicas, 1)
	switch {
	case d.Spec.Paused:
		return fmt.Sprintf("Deployment %s is paused", d.Name)
	case want == 0:
		return ""
	case d.Status.ObservedGeneration < d.Generation:
		return fmt.Sprintf("Deployment %s: its latest spec has not been processed yet", d.Name)
	}
	if stuck := blocked(d); stuck != "" {
		return fmt.Sprintf("Deployment %s: %s", d.Name, stuck)
	}
	switch {
	case d.Status.UpdatedReplicas < want:
		return fmt.Sprintf("Deployment %s: %d of %d replicas are updated", d.Name, d.Status.UpdatedReplicas, want)
	case d.Status.AvailableReplicas < want:
		return fmt.Sprintf("Deployment %s: %d of %d replicas are available", d.Name, d.Status.AvailableReplicas, want)
	case d.Status.Replicas != want:
		return fmt.Sprintf("Deployment %s: %d old replicas are still there", d.Name, d.Status.Replicas-want)
	case !deploymentAvailable(d):
		return fmt.Sprintf("Deployment %s: it does not report itself as available", d.Name)
	}
	return ""
}

// blocked is what keeps a Deployment from making progress, in its own words: a quota, a webhook, a deadline.
func blocked(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

func deploymentAvailable(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentAvailable {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Events are what users should hear of a change of status. That a component became ready is told by its graph.
func Events(before, after v1alpha1.DynamoComponentDeploymentStatus) []statusio.Event {
	return append(controllers.ContestedEvents(before.Conditions, after.Conditions), refusals(before, after)...)
}

func refusals(before, after v1alpha1.DynamoComponentDeploymentStatus) []statusio.Event {
	is := conditions.Find(after.Conditions, v1alpha1.ConditionAvailable)
	was := conditions.Find(before.Conditions, v1alpha1.ConditionAvailable)
	if is == nil || (was != nil && was.Reason == is.Reason && was.ObservedGeneration == is.ObservedGeneration) {
		return nil
	}
	event := statusio.Event{Type: corev1.EventTypeWarning, Action: "Reconcile", Note: is.Message}
	switch is.Reason {
	case conditions.ValidationFailed:
		event.Reason = conditions.ValidationFailed
	case conditions.Reconciling:
		event.Reason = conditions.ReconcileError
	default:
		return nil
	}
	return []statusio.Event{event}
}
