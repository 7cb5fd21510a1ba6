// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"
)

func TestARevisionIsRecognisedByItsTemplate(t *testing.T) {
	t.Parallel()
	// As LeaderWorkerSet records it, with an amount that is written differently and a member that means nothing.
	recorded := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{lwsv1.RevisionKey: "k"}},
		Data: runtime.RawExtension{Raw: []byte(`{"spec":{"networkConfig":{"$patch":"replace"},"leaderWorkerTemplate":{"$patch":"replace","size":2,
			"workerTemplate":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"1000m"}}}]}}}}}`)},
	}
	folded, err := FoldRevision(recorded)
	if err != nil {
		t.Fatal(err)
	}
	again, err := FoldRevision(folded) // informers do it twice
	if diff := cmp.Diff(folded, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	revision, ok := again.(*appsv1.ControllerRevision)
	if !ok || revision.Data.Raw != nil || revision.Labels[lwsv1.RevisionKey] != "k" {
		t.Fatalf("folded to %v", again)
	}
	live := lwsv1.LeaderWorkerTemplate{Size: new(int32(2))}
	live.WorkerTemplate.Spec.Containers = []corev1.Container{{Name: "main"}}
	live.WorkerTemplate.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	if got := templateHash(&live); got != revision.Annotations[templateAnnotation] {
		t.Error("the template that was recorded is not recognised")
	}
	live.WorkerTemplate.Spec.Containers[0].Image = "other"
	if got := templateHash(&live); got == revision.Annotations[templateAnnotation] {
		t.Error("another template is taken for the one that was recorded")
	}
}

func TestAPodIsFoldedToWhatIsReadOfIt(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"nvidia.com/restartAt": "r", "example.com/large": "x"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}, {Type: corev1.PodInitialized},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "main", ContainerID: "id", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			}},
		},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"nvidia.com/restartAt": "r"}},
		Status: corev1.PodStatus{
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		},
	}
	got, err := FoldPod(p)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = FoldPod(got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
