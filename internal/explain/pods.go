// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain finds the first cause of what does not work, in words: pure rules over observed objects. Status, the
// command line and the console say the same because they all ask here.
package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// harmless are reasons to wait that pass by themselves. Telling of them would make a status flicker through every
// start of a pod.
var harmless = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// Pods returns what keeps the first of some pods, in the order given, from serving; empty if nothing is known to.
// A cause that keeps a pod from starting at all comes before one that it may recover from. Pods that were given up come
// last: their successors tell what is wrong now.
func Pods(pods []*corev1.Pod) string {
	for _, cause := range []func(*corev1.Pod) string{unplaced, waiting, unready, failed} {
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				continue
			}
			if why := cause(pod); why != "" {
				return fmt.Sprintf("pod %s: %s", pod.Name, why)
			}
		}
	}
	return ""
}

// unplaced is why no node was found for a pod, in the words of the scheduler.
func unplaced(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return "no node takes it: " + sentence(c.Message)
		}
	}
	return ""
}

// failed is why a pod was given up.
func failed(pod *corev1.Pod) string {
	if pod.Status.Phase != corev1.PodFailed {
		return ""
	}
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		return strings.TrimSpace("it failed: " + join(pod.Status.Reason, pod.Status.Message))
	}
	return "it failed"
}

// waiting is what a container waits for: an image, a Secret, the end of its pause after a crash.
func waiting(pod *corev1.Pod) string {
	for _, containers := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, c := range containers {
			if c.State.Waiting == nil || harmless[c.State.Waiting.Reason] {
				continue
			}
			if c.State.Waiting.Reason == crashing {
				return crashes(c)
			}
			return fmt.Sprintf("container %s: %s", c.Name, join(c.State.Waiting.Reason, c.State.Waiting.Message))
		}
	}
	return ""
}

// crashing is why a container waits that ends again and again.
const crashing = "CrashLoopBackOff"

// crashes is said of a container that ends again and again, while it waits for its next start and while it runs: the same,
// and without the pause that grows, so that the message stays.
func crashes(c corev1.ContainerStatus) string {
	last := c.LastTerminationState.Terminated
	if last == nil {
		return fmt.Sprintf("container %s: %s", c.Name, crashing)
	}
	return fmt.Sprintf("container %s: %s, it ended with code %d%s", c.Name, crashing, last.ExitCode, because(last))
}

func because(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" || t.Reason == "Error" || t.Reason == "Completed" {
		return ""
	}
	return ", " + t.Reason
}

// unready is a container that runs and does not pass its probe.
func unready(pod *corev1.Pod) string {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running == nil || c.Ready {
			continue
		}
		if c.LastTerminationState.Terminated != nil {
			return crashes(c)
		}
		if c.Started != nil && !*c.Started {
			return fmt.Sprintf("container %s has started and its startup probe has not passed yet", c.Name)
		}
		return fmt.Sprintf("container %s runs, but its readiness probe does not pass", c.Name)
	}
	return ""
}

func join(reason, message string) string {
	switch {
	case message == "":
		return reason
	case reason == "":
		return sentence(message)
	}
	return reason + ": " + sentence(message)
}

// sentence fits a message of another program into one of ours.
func sentence(message string) string {
	return strings.TrimRight(strings.Join(strings.Fields(message), " "), ". ")
}
