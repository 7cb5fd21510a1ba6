// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"testing"

	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"github.com/google/go-cmp/cmp"
)

// run has a PodClique take steps until nothing changes and returns replicas, ready and updated ones after each.
func run(t *testing.T, status *v1alpha1.PodCliqueStatus, d demand) [][3]int32 {
	t.Helper()
	var steps [][3]int32
	for range 100 {
		before := status.DeepCopy()
		imagine(status, d)
		if cmp.Equal(before, status) {
			return steps
		}
		steps = append(steps, [3]int32{status.Replicas, status.ReadyReplicas, status.UpdatedReplicas})
	}
	t.Fatalf("no end after %v", steps)
	return nil
}

func TestImaginedPodsGoStepByStep(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		story []demand
		want  [][3]int32 // what the last part of the story does
	}{
		"start": {
			story: []demand{{replicas: 2, hash: "a"}},
			want:  [][3]int32{{2, 0, 2}, {2, 2, 2}},
		},
		"held start": {
			story: []demand{{replicas: 2, hash: "a", held: true}},
			want:  [][3]int32{{2, 0, 2}},
		},
		"released start": {
			story: []demand{{replicas: 2, hash: "a", held: true}, {replicas: 2, hash: "a"}},
			want:  [][3]int32{{2, 2, 2}},
		},
		"no pods at all": {
			story: []demand{{replicas: 0, hash: "a"}},
			want:  [][3]int32{{0, 0, 0}},
		},
		"another template without pods": {
			story: []demand{{replicas: 0, hash: "a"}, {replicas: 0, hash: "b"}},
			want:  [][3]int32{{0, 0, 0}},
		},
		"another template before anything was ready replaces all at once": {
			story: []demand{{replicas: 2, hash: "a", held: true}, {replicas: 2, hash: "b"}},
			want:  [][3]int32{{0, 0, 0}, {2, 0, 2}, {2, 2, 2}},
		},
		"another template in the middle of an update": {
			story: []demand{{replicas: 2, hash: "a"}, {replicas: 2, hash: "b", held: true}, {replicas: 2, hash: "c"}},
			want:  [][3]int32{{1, 1, 0}, {2, 1, 1}, {2, 2, 1}, {1, 1, 1}, {2, 1, 2}, {2, 2, 2}},
		},
		"the old template in the middle of an update": {
			story: []demand{{replicas: 1, hash: "a"}, {replicas: 1, hash: "b", held: true}, {replicas: 1, hash: "a"}},
			want:  [][3]int32{{0, 0, 0}, {1, 0, 1}, {1, 1, 1}},
		},
		"scaling in drops pods that are not ready first": {
			story: []demand{{replicas: 3, hash: "a"}, {replicas: 3, hash: "b", held: true}, {replicas: 2, hash: "b", held: true}},
			want:  [][3]int32{{2, 2, 0}, {1, 1, 0}, {2, 1, 1}},
		},
		"scaling in a held clique drops what was never ready": {
			story: []demand{{replicas: 1, hash: "a"}, {replicas: 5, hash: "a", held: true}, {replicas: 3, hash: "a", held: true}},
			want:  [][3]int32{{3, 1, 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var status v1alpha1.PodCliqueStatus
			var got [][3]int32
			for _, d := range tc.story {
				got = run(t, &status, d)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScalingInDropsOldPodsBeforeNewOnes(t *testing.T) {
	t.Parallel()
	status := v1alpha1.PodCliqueStatus{Replicas: 5, ReadyReplicas: 4, UpdatedReplicas: 3}
	scaleIn(&status, 1)
	want := v1alpha1.PodCliqueStatus{Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestWhatAPodCannotBeGivenChangesTheHash(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit    func(*v1alpha1.PodCliqueTemplateSpec)
		changes bool
	}{
		"label":      {func(c *v1alpha1.PodCliqueTemplateSpec) { c.Labels = map[string]string{"a": "b"} }, true},
		"annotation": {func(c *v1alpha1.PodCliqueTemplateSpec) { c.Annotations = map[string]string{"a": "b"} }, true},
		"pod":        {func(c *v1alpha1.PodCliqueTemplateSpec) { c.Spec.PodSpec.SchedulerName = "other" }, true},
		"count":      {func(c *v1alpha1.PodCliqueTemplateSpec) { c.Spec.Replicas = 2 }, false},
		"minimum":    {func(c *v1alpha1.PodCliqueTemplateSpec) { c.Spec.MinAvailable = new(int32(2)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template := &v1alpha1.PodCliqueTemplateSpec{}
			before, err := templateHash(template)
			if err != nil {
				t.Fatal(err)
			}
			tc.edit(template)
			after, err := templateHash(template)
			if err != nil {
				t.Fatal(err)
			}
			if changed := before != after; changed != tc.changes {
				t.Errorf("the hash changed: %t, want %t", changed, tc.changes)
			}
		})
	}
}

func TestReleaseLooksAtEverySetAgain(t *testing.T) {
	t.Parallel()
	sim := New(nil, "")
	defer sim.queue.ShutDown()
	set := &v1alpha1.PodCliqueSet{}
	set.Name = "chat"
	sim.enqueue(set)
	key, _ := sim.queue.Get()
	sim.queue.Done(key)
	sim.Hold("chat-0-web")
	if sim.queue.Len() != 0 {
		t.Fatal("a hold gives the simulator something to do")
	}
	sim.Release("chat-0-web")
	if sim.queue.Len() != 1 {
		t.Errorf("%d sets are queued after a release, want 1", sim.queue.Len())
	}
}
