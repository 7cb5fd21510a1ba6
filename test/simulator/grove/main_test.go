// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"context"
	"testing"
	"time"

	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// patience is for loaded machines; on an idle one everything here takes milliseconds.
const patience = time.Minute

func TestMain(m *testing.M) { harness.Main(m, harness.WithGrove()) }

func clique(name string, replicas, minAvailable int32) *v1alpha1.PodCliqueTemplateSpec {
	return &v1alpha1.PodCliqueTemplateSpec{
		Name:   name,
		Labels: map[string]string{"example.test/part": name}, Annotations: map[string]string{"example.test/note": "first"},
		Spec: v1alpha1.PodCliqueSpec{
			RoleName: name, Replicas: replicas, MinAvailable: &minAvailable,
			PodSpec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.test/none"}}},
		},
	}
}

// chat has a clique for itself and two in a group, as a graph with one single-node and one multi-node component has.
func chat(namespace string) *v1alpha1.PodCliqueSet {
	set := &v1alpha1.PodCliqueSet{}
	set.Name, set.Namespace = "chat", namespace
	set.Spec.Replicas = 1
	set.Spec.Template.Cliques = []*v1alpha1.PodCliqueTemplateSpec{
		clique("web", 3, 1), clique("decode-ldr", 1, 1), clique("decode-wkr", 2, 2),
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

func read[T client.Object](t *testing.T, namespace, name string, obj T) T {
	t.Helper()
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		t.Fatalf("get %s: %v", name, err)
	}
	return obj
}

// change edits the set on its latest version.
func change(t *testing.T, namespace string, edit func(*v1alpha1.PodCliqueSet)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		set := read(t, namespace, "chat", &v1alpha1.PodCliqueSet{})
		edit(set)
		return harness.Client(t).Update(t.Context(), set)
	})
	if err != nil {
		t.Fatalf("change the set: %v", err)
	}
}

func scale(t *testing.T, obj client.Object, replicas int32) {
	t.Helper()
	to := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := harness.Client(t).SubResource("scale").Update(t.Context(), obj, client.WithSubResourceBody(to)); err != nil {
		t.Fatalf("scale %s: %v", obj.GetName(), err)
	}
}

// settled waits until the simulator has nothing more to do for the set and returns it.
func settled(t *testing.T, namespace string) *v1alpha1.PodCliqueSet {
	t.Helper()
	set := &v1alpha1.PodCliqueSet{}
	harness.Eventually(t, patience, "end of all work for the set", func() (bool, string) {
		read(t, namespace, "chat", set)
		s := set.Status
		switch {
		case s.ObservedGeneration == nil || *s.ObservedGeneration != set.Generation:
			return false, "not observed"
		case s.UpdatedReplicas != set.Spec.Replicas || s.AvailableReplicas != set.Spec.Replicas:
			return false, "not updated"
		}
		var groups v1alpha1.PodCliqueScalingGroupList
		if err := harness.Client(t).List(t.Context(), &groups, client.InNamespace(namespace)); err != nil {
			return false, err.Error()
		}
		for _, g := range groups.Items {
			hash := ptr.Deref(g.Status.CurrentPodCliqueSetGenerationHash, "")
			if ptr.Deref(g.Status.ObservedGeneration, 0) != g.Generation || g.Status.AvailableReplicas != g.Spec.Replicas || hash != *s.CurrentGenerationHash {
				return false, g.Name + " is not done"
			}
		}
		return true, ""
	})
	return set
}

// numbers are what the status of a PodClique or of a group says.
type numbers struct{ Replicas, Ready, Updated int32 }

func ofClique(obj client.Object) numbers {
	s := obj.(*v1alpha1.PodClique).Status
	return numbers{s.Replicas, s.ReadyReplicas, s.UpdatedReplicas}
}

func ofGroup(obj client.Object) numbers {
	s := obj.(*v1alpha1.PodCliqueScalingGroup).Status
	return numbers{s.Replicas, s.AvailableReplicas, s.UpdatedReplicas}
}

// record watches one object from now on. The function it returns waits until the numbers are those given and returns
// all that were seen on the way, without repetitions.
func record(t *testing.T, namespace, name string, list client.ObjectList, of func(client.Object) numbers) func(last numbers) []numbers {
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
	return func(last numbers) []numbers {
		t.Helper()
		var seen []numbers
		for event := range w.ResultChan() {
			obj, ok := event.Object.(client.Object)
			if !ok {
				t.Fatalf("watch %s: %v", name, event.Object)
			}
			if n := of(obj); len(seen) == 0 || seen[len(seen)-1] != n {
				seen = append(seen, n)
			}
			if len(seen) > 1 && seen[len(seen)-1] == last {
				return seen
			}
		}
		t.Fatalf("%s did not get to %v, it went through %v", name, last, seen)
		return nil
	}
}
