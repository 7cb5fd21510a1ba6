// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package living

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// hold is the annotation that keeps a pod from running on simulated nodes, so that a test can play its kubelet.
const hold = "dynamo-local/hold"

func held(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ExtraPodMetadata = &v1alpha1.ExtraPodMetadata{Annotations: map[string]string{hold: "true"}}
}

// says waits until the graph's Ready condition tells all of these.
func says(t *testing.T, ns string, want ...string) {
	t.Helper()
	awaitCondition(t, ns, v1alpha1.ConditionReady, "Ready tells "+strings.Join(want, " ... "), func(c metav1.Condition) bool {
		for _, text := range want {
			if !strings.Contains(c.Message, text) {
				return false
			}
		}
		return c.Status == metav1.ConditionFalse
	})
}

func TestAPodThatNoNodeTakesIsTheCause(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.Services["Decode"].Resources = &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "64"}}
	create(t, g)
	says(t, ns, "chat-decode: Deployment chat-decode: 0 of 1 replicas are available", "pod chat-decode-", "no node takes it", "nvidia.com/gpu")
}

func TestAQuotaIsTheCause(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	})
	create(t, builders.TwoComponents(ns, "chat").Change("Decode", builders.Replicas(3)).Obj())
	says(t, ns, "Deployment chat-", "exceeded quota: few")
}

// TestWhatAContainerWaitsForIsTheCause plays the kubelet: it reports what a container waits for, one thing after another.
func TestWhatAContainerWaitsForIsTheCause(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Change("Decode", held).Obj())
	for _, step := range []struct {
		status corev1.ContainerStatus
		want   string
	}{
		{corev1.ContainerStatus{State: waiting("ImagePullBackOff", `Back-off pulling image "registry.example.com/dynamo:1"`)}, "container main: ImagePullBackOff: Back-off pulling image"},
		{corev1.ContainerStatus{State: waiting("CreateContainerConfigError", `secret "hf-token" not found`)}, `container main: CreateContainerConfigError: secret "hf-token" not found`},
		{corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off 10s"), LastTerminationState: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
		}}, "it ended with code 137, OOMKilled"},
		{corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Started: new(true)}, "container main runs, but its readiness probe does not pass"},
	} {
		var pod corev1.Pod
		harness.Eventually(t, patience, "a pod", func() (bool, string) {
			for _, p := range pods(t, ns, "Decode") {
				pod = p
			}
			return pod.Name != "" && pod.Spec.NodeName != "", "none on a node"
		})
		step.status.Name, step.status.Image, step.status.ImageID = "main", "i", "i"
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{step.status}
		if err := harness.Client(t).Status().Update(t.Context(), &pod); err != nil {
			t.Fatal(err)
		}
		says(t, ns, "pod "+pod.Name, step.want)
	}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}
