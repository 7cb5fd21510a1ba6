// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/common/constants"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/simulator/grove"
)

func TestTheCRDsAreOfTheVersionThatIsBuiltIn(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if required := strings.Replace(grove.Module, "@", " ", 1); !strings.Contains(string(content), required) {
		t.Errorf("go.mod does not require %q", required)
	}
}

func TestASetBecomesReady(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	set := settled(t, ns)
	if !slices.Contains(set.Finalizers, constants.FinalizerPodCliqueSet) {
		t.Errorf("finalizers %v lack Grove's", set.Finalizers)
	}
	wantSet := v1alpha1.PodCliqueSetStatus{
		ObservedGeneration: &set.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
		CurrentGenerationHash: set.Status.CurrentGenerationHash,
	}
	if diff := cmp.Diff(wantSet, set.Status); diff != "" {
		t.Errorf("status of the set (-want +got):\n%s", diff)
	}
	group := read(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroup{})
	wantGroup := v1alpha1.PodCliqueScalingGroupStatus{
		ObservedGeneration: &group.Generation, Replicas: 2, ScheduledReplicas: 2, AvailableReplicas: 2, UpdatedReplicas: 2,
		CurrentPodCliqueSetGenerationHash: set.Status.CurrentGenerationHash,
	}
	if diff := cmp.Diff(wantGroup, group.Status); diff != "" {
		t.Errorf("status of the group (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(group, set) {
		t.Errorf("the group belongs to %v", group.OwnerReferences)
	}
	var cliques v1alpha1.PodCliqueList
	if err := harness.Client(t).List(t.Context(), &cliques, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cliques.Items {
		names = append(names, fmt.Sprintf("%s: %d of %d", c.Name, c.Status.ReadyReplicas, c.Spec.Replicas))
	}
	wantNames := []string{
		"chat-0-decode-0-decode-ldr: 1 of 1", "chat-0-decode-0-decode-wkr: 2 of 2",
		"chat-0-decode-1-decode-ldr: 1 of 1", "chat-0-decode-1-decode-wkr: 2 of 2", "chat-0-web: 3 of 3",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("PodCliques (-want +got):\n%s", diff)
	}
}

func TestAPodCliqueLooksAsGroveMakesIt(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	set := settled(t, ns)
	web := read(t, ns, "chat-0-web", &v1alpha1.PodClique{})
	hash := web.Labels[common.LabelPodTemplateHash]
	want := v1alpha1.PodCliqueStatus{
		ObservedGeneration: &web.Generation, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, ScheduledReplicas: 3,
		CurrentPodTemplateHash: &hash, CurrentPodCliqueSetGenerationHash: set.Status.CurrentGenerationHash,
	}
	if diff := cmp.Diff(want, web.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{
		"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "chat",
		"app.kubernetes.io/name": "chat-0-web", "app.kubernetes.io/component": "pcs-podclique",
		"grove.io/podcliqueset-replica-index": "0", "grove.io/podgang": "chat-0", "grove.io/pod-template-hash": hash,
		"example.test/part": "web",
	}
	if diff := cmp.Diff(wantLabels, web.Labels); diff != "" {
		t.Errorf("labels outside of groups (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(web, set) || web.Annotations["example.test/note"] != "first" {
		t.Errorf("owners %v, annotations %v", web.OwnerReferences, web.Annotations)
	}
	worker := read(t, ns, "chat-0-decode-1-decode-wkr", &v1alpha1.PodClique{})
	wantLabels = map[string]string{
		"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "chat",
		"app.kubernetes.io/name": "chat-0-decode-1-decode-wkr", "app.kubernetes.io/component": "pcsg-podclique",
		"grove.io/podcliqueset-replica-index": "0", "grove.io/podcliquescalinggroup": "chat-0-decode",
		"grove.io/podcliquescalinggroup-replica-index": "1", "grove.io/podgang": "chat-0-decode-0",
		"grove.io/base-podgang": "chat-0", "grove.io/pod-template-hash": worker.Labels[common.LabelPodTemplateHash],
		"example.test/part": "decode-wkr",
	}
	if diff := cmp.Diff(wantLabels, worker.Labels); diff != "" {
		t.Errorf("labels in a group (-want +got):\n%s", diff)
	}
	if group := read(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroup{}); !metav1.IsControlledBy(worker, group) {
		t.Errorf("a PodClique of a group belongs to %v", worker.OwnerReferences)
	}
}

func TestScaleMovesAPodCliqueAndTheTemplateDoesNot(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	web := read(t, ns, "chat-0-web", &v1alpha1.PodClique{})
	seen := record(t, ns, web.Name, &v1alpha1.PodCliqueList{}, ofClique)
	scale(t, web, 5)
	if diff := cmp.Diff([]numbers{{3, 3, 3}, {5, 3, 5}, {5, 5, 5}}, seen(numbers{5, 5, 5})); diff != "" {
		t.Errorf("scaling out (-want +got):\n%s", diff)
	}
	scale(t, web, 0)
	if diff := cmp.Diff([]numbers{{5, 5, 5}, {0, 0, 0}}, seen(numbers{0, 0, 0})); diff != "" {
		t.Errorf("scaling in (-want +got):\n%s", diff)
	}
	change(t, ns, func(set *v1alpha1.PodCliqueSet) { set.Spec.Template.Cliques[0].Spec.Replicas = 2 })
	harness.Eventually(t, patience, "observation of the change", func() (bool, string) {
		set := read(t, ns, "chat", &v1alpha1.PodCliqueSet{})
		return *set.Status.ObservedGeneration == set.Generation, "not yet"
	})
	if read(t, ns, web.Name, web).Spec.Replicas != 0 {
		t.Errorf("a count in the template moved the PodClique to %d replicas", web.Spec.Replicas)
	}
}

func TestScaleMovesAGroupAndTheTemplateDoesNot(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	group := read(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroup{})
	seen := record(t, ns, group.Name, &v1alpha1.PodCliqueScalingGroupList{}, ofGroup)
	scale(t, group, 3)
	if diff := cmp.Diff([]numbers{{2, 2, 2}, {3, 2, 3}, {3, 3, 3}}, seen(numbers{3, 3, 3})); diff != "" {
		t.Errorf("scaling out (-want +got):\n%s", diff)
	}
	scale(t, group, 1)
	if diff := cmp.Diff([]numbers{{3, 3, 3}, {1, 1, 1}}, seen(numbers{1, 1, 1})); diff != "" {
		t.Errorf("scaling in (-want +got):\n%s", diff)
	}
	err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-0-decode-1-decode-ldr"}, &v1alpha1.PodClique{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a PodClique of a replica that was scaled in: %v, want not found", err)
	}
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		set.Spec.Template.PodCliqueScalingGroupConfigs[0].Replicas = new(int32(4))
	})
	settled(t, ns)
	if read(t, ns, group.Name, group).Spec.Replicas != 1 {
		t.Errorf("a count in the template moved the group to %d replicas", group.Spec.Replicas)
	}
}

// The annotation alone changes, as in a restart: nothing raises the generation of the PodClique.
func TestATemplateChangeReplacesPodsOneAfterAnother(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	before := read(t, ns, "chat-0-web", &v1alpha1.PodClique{})
	other := read(t, ns, "chat-0-decode-0-decode-ldr", &v1alpha1.PodClique{})
	seen := record(t, ns, before.Name, &v1alpha1.PodCliqueList{}, ofClique)
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		set.Spec.Template.Cliques[0].Annotations["example.test/note"] = "second"
	})
	want := []numbers{
		{3, 3, 3}, {3, 3, 0}, {2, 2, 0}, {3, 2, 1}, {3, 3, 1}, {2, 2, 1}, {3, 2, 2}, {3, 3, 2}, {2, 2, 2}, {3, 2, 3}, {3, 3, 3},
	}
	if diff := cmp.Diff(want, seen(numbers{3, 3, 3})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	settled(t, ns)
	after := read(t, ns, before.Name, &v1alpha1.PodClique{})
	if after.UID != before.UID || *after.Status.CurrentPodTemplateHash == *before.Status.CurrentPodTemplateHash {
		t.Errorf("uid %s and hash %s became %s and %s, want the same PodClique with another hash",
			before.UID, *before.Status.CurrentPodTemplateHash, after.UID, *after.Status.CurrentPodTemplateHash)
	}
	if now := read(t, ns, other.Name, &v1alpha1.PodClique{}); now.UID != other.UID || now.Status.RollingUpdateProgress != nil {
		t.Errorf("a change of one clique rolled another: %+v", now.Status)
	}
}

func TestATemplateChangeReplacesReplicasOfAGroupOneAfterAnother(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	before := read(t, ns, "chat-0-decode-0-decode-ldr", &v1alpha1.PodClique{})
	seen := record(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroupList{}, ofGroup)
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		set.Spec.Template.Cliques[2].Spec.PodSpec.Containers[0].Image = "example.test/second"
	})
	want := []numbers{{2, 2, 2}, {2, 2, 0}, {2, 1, 1}, {2, 2, 1}, {2, 1, 2}, {2, 2, 2}}
	if diff := cmp.Diff(want, seen(numbers{2, 2, 2})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	set := settled(t, ns)
	if p := set.Status.RollingUpdateProgress; p == nil || p.UpdateEndedAt == nil {
		t.Errorf("progress of the set is %+v, want one that has ended", p)
	}
	if after := read(t, ns, before.Name, &v1alpha1.PodClique{}); after.UID == before.UID {
		t.Error("the leader was not replaced together with its worker")
	}
}

func TestAHeldPodCliqueWaitsInTheMiddleOfAnUpdate(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	sim.Hold("chat-0-web")
	seen := record(t, ns, "chat-0-web", &v1alpha1.PodCliqueList{}, ofClique)
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		set.Spec.Template.Cliques[0].Annotations["example.test/note"] = "second"
	})
	seen(numbers{3, 2, 1})
	// The change of a count comes after the step that the update is held at, and yet it is served.
	change(t, ns, func(set *v1alpha1.PodCliqueSet) { set.Spec.Template.Cliques[0].Spec.Replicas = 7 })
	harness.Eventually(t, patience, "observation of the change", func() (bool, string) {
		set := read(t, ns, "chat", &v1alpha1.PodCliqueSet{})
		return *set.Status.ObservedGeneration == set.Generation && set.Status.UpdatedReplicas == 0, "not yet"
	})
	if got := ofClique(read(t, ns, "chat-0-web", &v1alpha1.PodClique{})); got != (numbers{3, 2, 1}) {
		t.Errorf("a held update went on to %v", got)
	}
	sim.Release("chat-0-web")
	seen(numbers{3, 3, 3})
}

func TestReplicasOfASetAreUpdatedOneAfterAnother(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns)
	set := chat(ns)
	set.Spec.Replicas = 2
	create(t, set)
	first := settled(t, ns).Status.CurrentGenerationHash
	sim.Hold("chat-0-web")
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		for _, c := range set.Spec.Template.Cliques {
			c.Annotations["example.test/note"] = "second"
		}
	})
	harness.Eventually(t, patience, "end of the group in the first replica", func() (bool, string) {
		g := read(t, ns, "chat-0-decode", &v1alpha1.PodCliqueScalingGroup{})
		return *g.Status.CurrentPodCliqueSetGenerationHash != *first, "not yet"
	})
	for _, name := range []string{"chat-1-web", "chat-1-decode-0-decode-ldr"} {
		if c := read(t, ns, name, &v1alpha1.PodClique{}); c.Annotations["example.test/note"] != "first" {
			t.Errorf("%s was updated before the first replica was done", name)
		}
	}
	sim.Release("chat-0-web")
	settled(t, ns)
	for _, name := range []string{"chat-1-web", "chat-1-decode-0-decode-ldr"} {
		if c := read(t, ns, name, &v1alpha1.PodClique{}); c.Annotations["example.test/note"] != "second" {
			t.Errorf("%s was not updated", name)
		}
	}
}

func TestWhatTheTemplateNoLongerHasIsDeleted(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	change(t, ns, func(set *v1alpha1.PodCliqueSet) {
		set.Spec.Template.Cliques = set.Spec.Template.Cliques[:1]
		set.Spec.Template.PodCliqueScalingGroupConfigs = nil
	})
	settled(t, ns)
	if diff := cmp.Diff([]string{"chat-0-web"}, leftovers(t, ns)); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
}

func TestADeletedSetLeavesNothing(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	set := settled(t, ns)
	if err := harness.Client(t).Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "end of the set", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(set), set)
		return apierrors.IsNotFound(err), "still there"
	})
	if left := leftovers(t, ns); len(left) > 0 {
		t.Errorf("%v outlived their set", left)
	}
}

func TestADeletedSetWaitsForItsLastPodClique(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	set := settled(t, ns)
	web := read(t, ns, "chat-0-web", &v1alpha1.PodClique{})
	stays := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.test/stays"]}}`))
	if err := harness.Client(t).Patch(t.Context(), web, stays); err != nil {
		t.Fatal(err)
	}
	if err := harness.Client(t).Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "deletion of all children but one", func() (bool, string) {
		left := leftovers(t, ns)
		return len(left) == 1, fmt.Sprint(left)
	})
	// A set that is made later and becomes ready shows that the simulator has had its chance.
	later := chat(ns)
	later.Name = "later"
	create(t, later)
	harness.Eventually(t, patience, "later set", func() (bool, string) {
		return read(t, ns, later.Name, later).Status.AvailableReplicas == 1, "not yet"
	})
	read(t, ns, set.Name, set)
	goes := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := harness.Client(t).Patch(t.Context(), web, goes); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "end of the set", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(set), set)
		return apierrors.IsNotFound(err), "still there"
	})
}

// Nobody collects garbage in this control plane, nor makes the account without which there are no pods.
func TestADeletedSetLeavesNoPods(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: ns}})
	harness.SimulateGrove(t, ns, grove.WithPods())
	set := chat(ns)
	create(t, set)
	harness.Eventually(t, patience, "pods of a clique", func() (bool, string) {
		web := &v1alpha1.PodClique{}
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat-0-web"}, web)
		return err == nil && web.Status.Replicas == 3, fmt.Sprintf("%d, %v", web.Status.Replicas, err)
	})
	if err := harness.Client(t).Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "end of the set", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(set), set)
		return apierrors.IsNotFound(err), "still there"
	})
	var pods corev1.PodList
	if err := harness.Client(t).List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) > 0 {
		t.Errorf("%d pods outlived their set", len(pods.Items))
	}
}

// leftovers returns the names of all PodCliques and groups.
func leftovers(t *testing.T, namespace string) []string {
	t.Helper()
	var cliques v1alpha1.PodCliqueList
	var groups v1alpha1.PodCliqueScalingGroupList
	for _, list := range []client.ObjectList{&cliques, &groups} {
		if err := harness.Client(t).List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, c := range cliques.Items {
		names = append(names, c.Name)
	}
	for _, g := range groups.Items {
		names = append(names, g.Name)
	}
	return names
}

// TestGroveCanBeTakenAwayAndBroughtBack is not parallel, so no other test of the package runs beside it.
func TestGroveCanBeTakenAwayAndBroughtBack(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, chat(ns))
	settled(t, ns)
	crds := harness.GroveCRDs(t)
	harness.RemoveCRDs(t, crds...)
	if err := harness.Client(t).Create(t.Context(), chat(ns)); !apierrors.IsNotFound(err) {
		t.Errorf("creating a set without the API: %v, want not found", err)
	}
	harness.InstallCRDs(t, crds...)
	create(t, chat(ns))
	settled(t, ns)
}
