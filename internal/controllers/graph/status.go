// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
)

// componentKind is the kind of a graph's components.
var componentKind = schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: "DynamoComponentDeployment"}

// Refused is the status of a graph whose spec cannot be rendered. What runs, runs on, and is still counted.
func Refused(g *v1alpha1.DynamoGraphDeployment, problems field.ErrorList, seen Seen, now metav1.Time) v1alpha1.DynamoGraphDeploymentStatus {
	next := counted(g, seen)
	next.State = v1alpha1.GraphStateFailed
	set := conditions.NewSet(g.Generation, g.Status.Conditions, now)
	putAvailable(set, g, seen)
	putClashes(set, seen.Clashes)
	controllers.PutPaused(set, controllers.IsPaused(g), nil)
	message := problems.ToAggregate().Error()
	set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Stall(conditions.ValidationFailed, message)
	next.Conditions = set.Sorted()
	return next
}

// Status is the status of a graph whose plan was applied. It is computed whole.
func Status(g *v1alpha1.DynamoGraphDeployment, applied apply.Result, seen Seen, restart rollout.Restart, now metav1.Time) v1alpha1.DynamoGraphDeploymentStatus {
	next := counted(g, seen)
	next.Restart = restart.Status
	set := conditions.NewSet(g.Generation, g.Status.Conditions, now)
	putAvailable(set, g, seen)
	putClashes(set, seen.Clashes)
	controllers.PutPaused(set, controllers.IsPaused(g), applied.Held)
	notReady := controllers.Because(controllers.PutContested(set, applied.Contested), whyNotReady(g, seen, restart))
	if len(applied.Held) > 0 {
		notReady = strings.TrimSuffix("the graph is paused, and changes are held back; "+notReady, "; ")
	}
	switch failures := applied.Reported(); {
	case len(failures) > 0:
		next.State = v1alpha1.GraphStateFailed
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.ReconcileFailed, conditions.Summary(failures))
		set.Stall(conditions.ReconcileError, conditions.Summary(failures))
	case notReady != "":
		next.State = v1alpha1.GraphStatePending
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.SomeResourcesNotReady, "Resources not ready: "+notReady)
		putStalled(set, g, applied, seen)
	case len(applied.Failures) > 0 && !judged(g):
		next.State = v1alpha1.GraphStatePending
		set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.SomeResourcesNotReady, "Changes are being applied")
	case len(applied.Failures) > 0:
		// A request that will be repeated in a moment changes nothing that was known of this generation.
		next.State = g.Status.State
		set.Keep(v1alpha1.ConditionReady)
		set.Keep(v1alpha1.ConditionStalled)
	default:
		next.State = v1alpha1.GraphStateSuccessful
		set.Put(v1alpha1.ConditionReady, metav1.ConditionTrue, conditions.AllResourcesReady, "All resources are ready")
	}
	next.Conditions = set.Sorted()
	return next
}

// unheard tells that everything was made for a graph without a problem, and that one of its components has yet to tell how it is.
func unheard(g *v1alpha1.DynamoGraphDeployment, applied apply.Result, seen Seen) bool {
	if len(applied.Failures)+len(applied.Held)+len(applied.Contested)+len(seen.Clashes) > 0 || seen.Moving || seen.UnreadQueue != "" ||
		controllers.IsPaused(g) || g.Spec.Restart != nil {
		return false
	}
	for _, child := range applied.Live {
		if c, ok := child.(*v1alpha1.DynamoComponentDeployment); ok && len(c.Status.Conditions) == 0 {
			return true
		}
	}
	return false
}

// judged tells whether the graph's Ready condition is about its latest generation.
func judged(g *v1alpha1.DynamoGraphDeployment) bool {
	c := conditions.Find(g.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.ObservedGeneration == g.Generation
}

// counted starts a status with what is there. A service that was never counted has its kind and name all the same.
func counted(g *v1alpha1.DynamoGraphDeployment, seen Seen) v1alpha1.DynamoGraphDeploymentStatus {
	next := v1alpha1.DynamoGraphDeploymentStatus{
		Services:           map[string]v1alpha1.ServiceReplicaStatus{},
		Restart:            g.Status.Restart,
		Checkpoints:        g.Status.Checkpoints,
		ObservedGeneration: g.Generation,
	}
	for name, service := range seen.Services {
		next.Services[name] = *service.Counts.DeepCopy()
	}
	return next
}

// whyNotReady names what keeps the graph from being ready, empty for nothing.
func whyNotReady(g *v1alpha1.DynamoGraphDeployment, seen Seen, restart rollout.Restart) string {
	if seen.Moving {
		return g.Name + ": moving to another orchestrator, waiting until what runs on the old one is gone"
	}
	about := map[string]string{}
	for name, service := range seen.Services {
		if service.Why == "" {
			continue
		}
		if object, why, ok := strings.Cut(service.Why, ": "); ok && seen.OnGrove {
			about[object] = why
			continue
		}
		about[names.Component(g.Name, name)] = service.Why
	}
	why := conditions.Summary(about)
	if why != "" && seen.OnGrove {
		why = g.Name + ": " + why // what is not ready is its PodCliqueSet
	}
	if why != "" && seen.UnreadQueue != "" {
		// Without this, nothing but the events of pods tells of a queue that is not there.
		why += fmt.Sprintf("; this operator may not read KAI queues: see that there is a queue %q", seen.UnreadQueue)
	}
	if r := restart.Status; r != nil && r.Phase == v1alpha1.RestartPhaseRestarting {
		return strings.TrimSuffix(restart.Note+"; "+why, "; ")
	}
	return why
}

// putAvailable says whether every service that should run has at least one replica that serves.
func putAvailable(set *conditions.Set, g *v1alpha1.DynamoGraphDeployment, seen Seen) {
	notServing := map[string]string{}
	for name, service := range seen.Services {
		if !service.Serves {
			notServing[names.Component(g.Name, name)] = "no replica is available"
		}
	}
	if len(notServing) > 0 {
		set.Put(v1alpha1.ConditionAvailable, metav1.ConditionFalse, conditions.SomeServicesNotServing, conditions.Summary(notServing))
		return
	}
	set.Put(v1alpha1.ConditionAvailable, metav1.ConditionTrue, conditions.AllServicesAvailable, "Every service has an available replica")
}

// putStalled passes on what components cannot do by themselves, unless a change that may help them is held back or still
// on its way.
func putStalled(set *conditions.Set, g *v1alpha1.DynamoGraphDeployment, applied apply.Result, seen Seen) {
	if len(applied.Failures) > 0 && judged(g) {
		set.Keep(v1alpha1.ConditionStalled)
	}
	if len(applied.Failures)+len(applied.Held) > 0 {
		return
	}
	about := map[string]string{}
	for name, service := range seen.Services {
		if service.Stalled {
			about[names.Component(g.Name, name)] = service.Why
		}
	}
	if len(about) > 0 {
		set.Stall(conditions.ComponentStalled, conditions.Summary(about))
	}
}

// asComponent is what a component reports of itself.
func asComponent(name string, c *v1alpha1.DynamoComponentDeployment) Service {
	report := Service{Exists: c != nil, Counts: replicas(name, c), Why: whyComponentNotReady(c), Serves: serves(c)}
	report.Stalled = c != nil && c.Status.ObservedGeneration == c.Generation && conditions.IsTrue(c.Status.Conditions, v1alpha1.ConditionStalled)
	if c != nil {
		report.Restart = c.Spec.Annotations[names.AnnotationRestartAt]
	}
	return report
}

// replicas are the counts a component reports. Before its first report they are zero, but kind and name are there.
func replicas(name string, c *v1alpha1.DynamoComponentDeployment) v1alpha1.ServiceReplicaStatus {
	if c != nil && c.Status.Service != nil {
		return *c.Status.Service.DeepCopy()
	}
	return v1alpha1.ServiceReplicaStatus{ComponentKind: v1alpha1.ComponentKindDeployment, ComponentName: name}
}

// whyComponentNotReady is empty for a component that is ready in the generation that is live. One that has not observed
// its latest spec speaks of the past.
func whyComponentNotReady(c *v1alpha1.DynamoComponentDeployment) string {
	if c == nil {
		return "waiting for its DynamoComponentDeployment"
	}
	if len(c.Status.Conditions) == 0 {
		return "it was just created"
	}
	if c.Status.ObservedGeneration < c.Generation {
		if failed := conditions.Find(c.Status.Conditions, v1alpha1.ConditionAvailable); failed != nil &&
			failed.ObservedGeneration == c.Generation && failed.Status == metav1.ConditionFalse {
			return failed.Message
		}
		return "its latest spec has not been processed yet"
	}
	if available := conditions.Find(c.Status.Conditions, v1alpha1.ConditionAvailable); available != nil {
		if available.Status == metav1.ConditionTrue {
			return ""
		}
		return available.Message
	}
	return "its state is not known yet"
}

// serves tells whether a component that should have replicas has one that takes requests.
func serves(c *v1alpha1.DynamoComponentDeployment) bool {
	if c == nil {
		return false
	}
	if want := c.Spec.Replicas; want != nil && *want == 0 {
		return true
	}
	s := c.Status.Service
	if s == nil {
		return false
	}
	if s.AvailableReplicas != nil {
		return *s.AvailableReplicas > 0
	}
	return s.ReadyReplicas != nil && *s.ReadyReplicas > 0
}

// Events are what users should hear of a change of status, which is transitions only.
func Events(before, after v1alpha1.DynamoGraphDeploymentStatus) []statusio.Event {
	told := append(removals(before, after), controllers.ContestedEvents(before.Conditions, after.Conditions)...)
	return append(told, transitions(before, after)...)
}

// removals tell of services that left the graph, and took their objects along. It is one event for all of them: of two
// that only their note tells apart, the client library sends the first and counts it twice.
func removals(before, after v1alpha1.DynamoGraphDeploymentStatus) []statusio.Event {
	var gone []string
	for _, service := range slices.Sorted(maps.Keys(before.Services)) {
		if _, stays := after.Services[service]; !stays {
			gone = append(gone, service)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	note := "Service %s is no longer part of the graph; what was made for it is removed"
	if len(gone) > 1 {
		note = "Services %s are no longer part of the graph; what was made for them is removed"
	}
	return []statusio.Event{{
		Type: corev1.EventTypeNormal, Reason: "ServiceRemoved", Action: "Reconcile", Note: fmt.Sprintf(note, strings.Join(gone, ", ")),
	}}
}

func transitions(before, after v1alpha1.DynamoGraphDeploymentStatus) []statusio.Event {
	ready := conditions.Find(after.Conditions, v1alpha1.ConditionReady)
	was := conditions.Find(before.Conditions, v1alpha1.ConditionReady)
	if ready == nil || (was != nil && was.Status == ready.Status && was.Reason == ready.Reason && was.ObservedGeneration == ready.ObservedGeneration) {
		return nil
	}
	event := statusio.Event{Type: corev1.EventTypeWarning, Action: "Reconcile", Note: ready.Message}
	switch {
	case ready.Reason == conditions.ValidationFailed:
		event.Reason = conditions.ValidationFailed
	case ready.Reason == conditions.ReconcileFailed:
		event.Reason = conditions.ReconcileError
	case conditions.Became(before.Conditions, after.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue):
		event.Type, event.Reason = corev1.EventTypeNormal, "Ready"
		event.Note = fmt.Sprintf("All %d services are ready", len(after.Services))
	case was != nil && was.Status == metav1.ConditionTrue:
		event.Reason = "NotReady"
		if was.ObservedGeneration != ready.ObservedGeneration {
			return nil // the user changed the graph; that it is no longer ready is no news
		}
	default:
		return nil
	}
	return []statusio.Event{event}
}
