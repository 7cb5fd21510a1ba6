// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes tests the simulator of Grove with pods that are scheduled and run, which takes a larger control plane.
package nodes

import (
	"context"
	"testing"
	"time"

	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/simulator/grove"
)

// patience is for loaded machines.
const patience = time.Minute

func TestMain(m *testing.M) { harness.Main(m, harness.WithGrove(), harness.WithNodes(1, 8)) }

// chat has two pods for itself and a group of two replicas with a leader and a worker.
func chat(namespace string) *v1alpha1.PodCliqueSet {
	set := &v1alpha1.PodCliqueSet{}
	set.Name, set.Namespace, set.Spec.Replicas = "chat", namespace, 1
	for _, c := range []struct {
		name     string
		replicas int32
	}{{"web", 2}, {"decode-ldr", 1}, {"decode-wkr", 1}} {
		set.Spec.Template.Cliques = append(set.Spec.Template.Cliques, &v1alpha1.PodCliqueTemplateSpec{
			Name: c.name, Labels: map[string]string{"example.test/part": c.name},
			Spec: v1alpha1.PodCliqueSpec{
				RoleName: c.name, Replicas: c.replicas, MinAvailable: new(int32(1)),
				PodSpec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/none"}}},
			},
		})
	}
	set.Spec.Template.PodCliqueScalingGroupConfigs = []v1alpha1.PodCliqueScalingGroupConfig{{
		Name: "decode", CliqueNames: []string{"decode-ldr", "decode-wkr"}, Replicas: new(int32(2)), MinAvailable: new(int32(1)),
	}}
	return set
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// await reads an object until it is as wanted.
func await[T client.Object](t *testing.T, key client.ObjectKey, obj T, what string, wanted func(T) bool) T {
	t.Helper()
	harness.Eventually(t, patience, what, func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), key, obj); err != nil {
			return false, err.Error()
		}
		return wanted(obj), "not yet"
	})
	return obj
}

func awaitUpdated(t *testing.T, namespace string) *v1alpha1.PodCliqueSet {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: "chat"}
	return await(t, key, &v1alpha1.PodCliqueSet{}, "updated set", func(set *v1alpha1.PodCliqueSet) bool {
		s := set.Status
		return s.ObservedGeneration != nil && *s.ObservedGeneration == set.Generation && s.UpdatedReplicas == 1 && s.AvailableReplicas == 1
	})
}

// pods returns the labelled part of every pod by its name, and checks that all run and have what Grove gives them.
func pods(t *testing.T, namespace string) map[string]string {
	t.Helper()
	var list corev1.PodList
	if err := harness.Client(t).List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, pod := range list.Items {
		parts[pod.Name] = pod.Labels["example.test/part"]
		owner := metav1.GetControllerOf(&pod)
		if owner == nil || owner.Kind != "PodClique" || owner.Name != pod.Labels["grove.io/podclique"] {
			t.Errorf("pod %s of PodClique %q belongs to %v", pod.Name, pod.Labels["grove.io/podclique"], owner)
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Spec.Hostname != pod.Name || pod.Spec.Subdomain != "chat-0" {
			t.Errorf("pod %s is %s as %s.%s", pod.Name, pod.Status.Phase, pod.Spec.Hostname, pod.Spec.Subdomain)
		}
	}
	return parts
}

func TestPodsAreMadeAndFollowed(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns, grove.WithPods())
	sim.Hold("chat-0-web")
	create(t, chat(ns))
	web := client.ObjectKey{Namespace: ns, Name: "chat-0-web"}
	held := await(t, web, &v1alpha1.PodClique{}, "held pods on their node", func(c *v1alpha1.PodClique) bool {
		return c.Status.ScheduledReplicas == 2
	})
	if held.Status.ReadyReplicas != 0 {
		t.Errorf("%d held pods are ready", held.Status.ReadyReplicas)
	}
	group := client.ObjectKey{Namespace: ns, Name: "chat-0-decode"}
	await(t, group, &v1alpha1.PodCliqueScalingGroup{}, "group that nobody holds", func(g *v1alpha1.PodCliqueScalingGroup) bool {
		return g.Status.AvailableReplicas == 2
	})
	sim.Release("chat-0-web")
	awaitUpdated(t, ns)
	want := map[string]string{
		"chat-0-web-0": "web", "chat-0-web-1": "web",
		"chat-0-decode-0-decode-ldr-0": "decode-ldr", "chat-0-decode-0-decode-wkr-0": "decode-wkr",
		"chat-0-decode-1-decode-ldr-0": "decode-ldr", "chat-0-decode-1-decode-wkr-0": "decode-wkr",
	}
	if diff := cmp.Diff(want, pods(t, ns)); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	to := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := harness.Client(t).SubResource("scale").Update(t.Context(), held, client.WithSubResourceBody(to)); err != nil {
		t.Fatal(err)
	}
	gone := client.ObjectKey{Namespace: ns, Name: "chat-0-web-1"}
	harness.Eventually(t, patience, "end of the second pod", func() (bool, string) {
		return apierrors.IsNotFound(harness.Client(t).Get(t.Context(), gone, &corev1.Pod{})), "still there"
	})
}

func TestPodsAreReplacedOneAfterAnother(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns, grove.WithPods())
	create(t, chat(ns))
	awaitUpdated(t, ns)
	cliques := follow(t, ns, "chat-0-web", &v1alpha1.PodCliqueList{})
	groups := follow(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroupList{})
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set := awaitUpdated(t, ns)
		for _, c := range set.Spec.Template.Cliques {
			c.Spec.PodSpec.Containers[0].Image = "example.test/second"
		}
		return harness.Client(t).Update(t.Context(), set)
	})
	if err != nil {
		t.Fatal(err)
	}
	cliques(func(obj client.Object) bool {
		s := obj.(*v1alpha1.PodClique).Status
		if s.ReadyReplicas < 1 {
			t.Errorf("only %d of two pods are ready", s.ReadyReplicas)
		}
		return s.RollingUpdateProgress != nil && s.RollingUpdateProgress.UpdateEndedAt != nil
	})
	groups(func(obj client.Object) bool {
		s := obj.(*v1alpha1.PodCliqueScalingGroup).Status
		if s.AvailableReplicas < 1 {
			t.Errorf("only %d of two replicas are available", s.AvailableReplicas)
		}
		return s.RollingUpdateProgress != nil && s.RollingUpdateProgress.UpdateEndedAt != nil
	})
	awaitUpdated(t, ns)
	var list corev1.PodList
	if err := harness.Client(t).List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	images := map[string]int{}
	for _, pod := range list.Items {
		images[pod.Spec.Containers[0].Image]++
	}
	if diff := cmp.Diff(map[string]int{"example.test/second": 6}, images); diff != "" {
		t.Errorf("images of the pods (-want +got):\n%s", diff)
	}
}

// follow watches one object from now on. The function it returns shows all its versions to a function that says when to
// stop.
func follow(t *testing.T, namespace, name string, list client.ObjectList) func(done func(client.Object) bool) {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w, err := api.Watch(ctx, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatalf("watch %s: %v", name, err)
	}
	t.Cleanup(w.Stop)
	return func(done func(client.Object) bool) {
		t.Helper()
		for event := range w.ResultChan() {
			if obj, ok := event.Object.(client.Object); ok && done(obj) {
				return
			}
		}
		t.Fatalf("%s did not get there", name)
	}
}

func TestADeletedSetLeavesNoPods(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns, grove.WithPods())
	create(t, chat(ns))
	set := awaitUpdated(t, ns)
	if err := harness.Client(t).Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "end of the set", func() (bool, string) {
		return apierrors.IsNotFound(harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(set), set)), "still there"
	})
	if left := pods(t, ns); len(left) > 0 {
		t.Errorf("%v outlived their set", left)
	}
}
