// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(name string, status corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: status}
}

func waits(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

func runs(started, ready bool) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", Started: &started, Ready: ready, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}}
}

func TestTheFirstCauseIsTold(t *testing.T) {
	t.Parallel()
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. ",
	}}}
	crashed := waits("CrashLoopBackOff", "back-off 10s restarting failed container")
	crashed.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	initializing := corev1.PodStatus{InitContainerStatuses: waits("ImagePullBackOff", "no such image").ContainerStatuses}
	going := pod("a", unscheduled)
	going.DeletionTimestamp = &metav1.Time{}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"none":                    {nil, ""},
		"starting":                {[]*corev1.Pod{pod("a", waits("ContainerCreating", ""))}, ""},
		"serving":                 {[]*corev1.Pod{pod("a", runs(true, true))}, ""},
		"not yet started":         {[]*corev1.Pod{pod("a", runs(false, false))}, "pod a: container main has started and its startup probe has not passed yet"},
		"not ready":               {[]*corev1.Pod{pod("a", runs(true, false))}, "pod a: container main runs, but its readiness probe does not pass"},
		"no node":                 {[]*corev1.Pod{pod("a", unscheduled)}, "pod a: no node takes it: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"},
		"no image":                {[]*corev1.Pod{pod("a", waits("ErrImagePull", "manifest\n unknown."))}, "pod a: container main: ErrImagePull: manifest unknown"},
		"no image to initialize":  {[]*corev1.Pod{pod("a", initializing)}, "pod a: container main: ImagePullBackOff: no such image"},
		"out of memory":           {[]*corev1.Pod{pod("a", crashed)}, "pod a: container main: CrashLoopBackOff, it ended with code 137, OOMKilled"},
		"evicted":                 {[]*corev1.Pod{pod("a", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"})}, "pod a: it failed: Evicted: low on memory"},
		"worst first":             {[]*corev1.Pod{pod("a", runs(true, false)), pod("b", unscheduled)}, "pod b: no node takes it: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu"},
		"of two alike, the first": {[]*corev1.Pod{pod("a", runs(true, false)), pod("b", runs(true, false))}, "pod a: container main runs, but its readiness probe does not pass"},
		"one that is on its way":  {[]*corev1.Pod{going}, ""},
	} {
		if got := Pods(tc.pods); got != tc.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, tc.want)
		}
	}
}
