// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Samples of kinds whose states the wire contract describes.

func condition(kind string, value metav1.ConditionStatus, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: value, Reason: "Any", Message: message, ObservedGeneration: latest, LastTransitionTime: now}
}

func aModel(generation int64, all ...metav1.Condition) *v1alpha1.DynamoModel {
	return &v1alpha1.DynamoModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lora", Generation: generation},
		Status:     v1alpha1.DynamoModelStatus{ObservedGeneration: latest, Conditions: all},
	}
}

func models() map[string]sample {
	created := aModel(latest)
	created.Status.ObservedGeneration = untouched
	found := condition(v1alpha1.ConditionEndpointsReady, metav1.ConditionTrue, "3 endpoints are ready")
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "The model is on 3 endpoints")
	loads := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, "1 of 3 endpoints is ready")
	refused := condition(v1alpha1.ConditionValid, metav1.ConditionFalse, "a LoRA needs a source")
	return map[string]sample{
		"just created":               {created, status.InProgressStatus, progressing, "Waiting for the operator"},
		"loads":                      {aModel(latest, found, loads), status.InProgressStatus, progressing, "1 of 3 endpoints is ready"},
		"ready":                      {aModel(latest, found, ready), status.CurrentStatus, healthy, "The model is on 3 endpoints"},
		"ready, without a summary":   {aModel(latest, found), status.CurrentStatus, healthy, "3 endpoints are ready"},
		"changed since it was ready": {aModel(latest+1, found, ready), status.InProgressStatus, progressing, "Waiting for the operator"},
		"refused":                    {aModel(latest, refused, loads), status.FailedStatus, degraded, "a LoRA needs a source"},
		"stalled":                    {aModel(latest, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, "no such file"), loads), status.FailedStatus, degraded, "no such file"},
	}
}

func aRequest(state string, all ...metav1.Condition) *v1alpha1.DynamoGraphDeploymentRequest {
	return &v1alpha1.DynamoGraphDeploymentRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "fast", Generation: latest},
		Status:     v1alpha1.DynamoGraphDeploymentRequestStatus{State: state, ObservedGeneration: latest, Conditions: all},
	}
}

func requests() map[string]sample {
	created := aRequest("")
	created.Status.ObservedGeneration = untouched
	profiled := condition(v1alpha1.ConditionProfiling, metav1.ConditionTrue, "Profiling is done")
	generated := condition(v1alpha1.ConditionSpecGenerated, metav1.ConditionTrue, "The graph is described")
	serves := condition(v1alpha1.ConditionDeploymentReady, metav1.ConditionTrue, "The graph serves")
	changed := aRequest(v1alpha1.RequestStateReady, profiled, generated, serves)
	changed.Generation++
	return map[string]sample{
		"just created": {created, status.InProgressStatus, progressing, "Waiting for the operator"},
		"pending":      {aRequest(v1alpha1.RequestStatePending), status.InProgressStatus, progressing, "Pending"},
		"profiling": {
			aRequest(v1alpha1.RequestStateProfiling, condition(v1alpha1.ConditionProfiling, metav1.ConditionFalse, "The Job runs")), status.InProgressStatus, progressing, "The Job runs",
		},
		"deploying": {
			aRequest(v1alpha1.RequestStateDeploying, profiled, generated, condition(v1alpha1.ConditionDeploymentReady, metav1.ConditionFalse, "The graph was created")),
			status.InProgressStatus, progressing, "The graph was created",
		},
		"ready":                  {aRequest(v1alpha1.RequestStateReady, profiled, generated, serves), status.CurrentStatus, healthy, "The graph serves"},
		"ready, not applied":     {aRequest(v1alpha1.RequestStateReady, profiled, generated), status.CurrentStatus, healthy, "The graph is described"},
		"changed when too late":  {changed, status.InProgressStatus, degraded, "the change is ignored"},
		"refused":                {aRequest(v1alpha1.RequestStateFailed, condition(v1alpha1.ConditionValidation, metav1.ConditionFalse, "no such ConfigMap")), status.FailedStatus, degraded, "no such ConfigMap"},
		"profiling failed":       {aRequest(v1alpha1.RequestStateFailed, condition(v1alpha1.ConditionProfiling, metav1.ConditionFalse, "The Job failed")), status.FailedStatus, degraded, "The Job failed"},
		"its graph was deleted":  {aRequest(v1alpha1.RequestStateDeploymentDeleted, profiled, generated), status.FailedStatus, degraded, "The graph is described"},
		"failed without a cause": {aRequest(v1alpha1.RequestStateFailed), status.FailedStatus, degraded, "Failed"},
	}
}

func aCheckpoint(phase v1alpha1.DynamoCheckpointPhase, message string, all ...metav1.Condition) *v1alpha1.DynamoCheckpoint {
	return &v1alpha1.DynamoCheckpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "warm", Generation: latest},
		Status:     v1alpha1.DynamoCheckpointStatus{Phase: phase, Message: message, ObservedGeneration: latest, Conditions: all},
	}
}

func checkpoints() map[string]sample {
	created := aCheckpoint("", "")
	created.Status.ObservedGeneration = untouched
	started := condition(v1alpha1.ConditionJobCreated, metav1.ConditionTrue, "Job checkpoint-warm was created")
	stored := condition(v1alpha1.ConditionTarAvailable, metav1.ConditionTrue, "It is in /checkpoints/h")
	return map[string]sample{
		"just created": {created, status.InProgressStatus, progressing, "Waiting for the operator"},
		"pending":      {aCheckpoint(v1alpha1.DynamoCheckpointPhasePending, ""), status.InProgressStatus, progressing, "is being made"},
		"creating":     {aCheckpoint(v1alpha1.DynamoCheckpointPhaseCreating, "", started), status.InProgressStatus, progressing, "Job checkpoint-warm was created"},
		"ready":        {aCheckpoint(v1alpha1.DynamoCheckpointPhaseReady, "", started, stored), status.CurrentStatus, healthy, "It is in /checkpoints/h"},
		"failed":       {aCheckpoint(v1alpha1.DynamoCheckpointPhaseFailed, "the pod was evicted", started), status.FailedStatus, degraded, "the pod was evicted"},
		"suspect": {
			aCheckpoint(v1alpha1.DynamoCheckpointPhaseReady, "", started, stored, condition(v1alpha1.ConditionSuspect, metav1.ConditionTrue, "the image has changed")),
			status.FailedStatus, degraded, "the image has changed",
		},
	}
}
