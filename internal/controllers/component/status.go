// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
)

var deploymentKind = schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}

// Refused is the status of a component whose spec cannot be rendered. What runs, runs on, and is still counted.
func Refused(
	c *v1alpha1.DynamoComponentDeployment, problems field.ErrorList, observed apply.Children, now metav1.Time,
) v1alpha1.DynamoComponentDeploymentStatus {
	next := counted(c, observed)
	message := problems.ToAggregate().Error()
	set := conditions.NewSet(c.Generation, c.Status.Conditions, now)
	set.Put(v1alpha1.ConditionValid, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Put(v1alpha1.ConditionAvailable, metav1.ConditionFalse, conditions.ValidationFailed, message)
	set.Put(v1alpha1.ConditionReady, metav1.ConditionFalse, conditions.ValidationFailed, message)
	next.Conditions = set.Sorted()
	return next
}

// Status is the status of a component whose plan was applied. It is computed whole. The observed generation advances
// only when everything of it was applied.
func Status(c *v1alpha1.DynamoComponentDeployment, applied apply.Result, now metav1.Time) v1alpha1.DynamoComponentDeploymentStatus {
	next := counted(c, applied.Live)
	set := conditions.NewSet(c.Generation, c.Status.Conditions, now)
	set.Put(v1alpha1.ConditionValid, metav1.ConditionTrue, conditions.ValidationPassed, "The spec is valid")
	put := func(status metav1.ConditionStatus, reason, message string) {
		set.Put(v1alpha1.ConditionAvailable, status, reason, message)
		set.Put(v1alpha1.ConditionReady, status, reason, message)
	}
	why := whyNotReady(workload(c, applied.Live))
	switch failures := applied.Reported(); {
	case len(failures) > 0:
		put(metav1.ConditionFalse, conditions.Reconciling, conditions.Summary(failures))
	case why != "":
		put(metav1.ConditionFalse, conditions.DeploymentNotReady, why)
	case len(applied.Failures) > 0 && c.Status.ObservedGeneration != c.Generation:
		put(metav1.ConditionFalse, conditions.DeploymentNotReady, "Changes are being applied")
	case len(applied.Failures) > 0:
		// A request that will be repeated in a moment changes nothing that was known of this generation.
		set.Keep(v1alpha1.ConditionAvailable)
		set.Keep(v1alpha1.ConditionReady)
	default:
		put(metav1.ConditionTrue, conditions.DeploymentReady, "The Deployment is ready")
	}
	next.Conditions = set.Sorted()
	if len(applied.Failures) == 0 {
		next.ObservedGeneration = c.Generation
	}
	return next
}

// counted starts a status with what is there.
func counted(c *v1alpha1.DynamoComponentDeployment, live apply.Children) v1alpha1.DynamoComponentDeploymentStatus {
	return v1alpha1.DynamoComponentDeploymentStatus{
		ObservedGeneration: c.Status.ObservedGeneration,
		PodSelector:        c.Status.PodSelector,
		Service:            replicas(c.Name, workload(c, live)),
	}
}

func workload(c *v1alpha1.DynamoComponentDeployment, live apply.Children) *appsv1.Deployment {
	key := recent.Key{GroupKind: deploymentKind, NamespacedName: client.ObjectKeyFromObject(c)}
	d, _ := live[key].(*appsv1.Deployment)
	return d
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

// whyNotReady is empty for a Deployment all of whose replicas are of the live generation and available.
func whyNotReady(d *appsv1.Deployment) string {
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
