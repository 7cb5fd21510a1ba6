// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package multinode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const patience = 3 * time.Minute

// sglang is a graph whose worker has replicas of two nodes.
func sglang(ns string, replicas int32) *builders.GraphBuilder {
	return builders.Graph(ns, "big").
		Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.sglang --tp 2"),
			builders.Nodes(2), builders.Replicas(replicas))
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// sets returns the LeaderWorkerSets of a namespace by name.
func sets(t *testing.T, ns string) map[string]lwsv1.LeaderWorkerSet {
	t.Helper()
	var all lwsv1.LeaderWorkerSetList
	if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	byName := map[string]lwsv1.LeaderWorkerSet{}
	for _, s := range all.Items {
		byName[s.Name] = s
	}
	return byName
}

// pods returns the pods of the component Decode by name.
func pods(t *testing.T, ns string) map[string]corev1.Pod {
	t.Helper()
	var all corev1.PodList
	err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns), client.MatchingLabels{names.LabelComponent: "Decode"})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]corev1.Pod{}
	for _, p := range all.Items {
		byName[p.Name] = p
	}
	return byName
}

func TestGroupsComeUpAndScale(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, sglang(ns, 2).Obj())
	g := awaitReady(t, ns, "big")
	if got := g.Status.Services["Decode"]; got.ComponentKind != v1alpha1.ComponentKindLeaderWorkerSet || got.ComponentName != "big-decode-0" ||
		got.Replicas != 2 || got.UpdatedReplicas != 2 || got.ReadyReplicas == nil || *got.ReadyReplicas != 2 {
		t.Errorf("status of Decode: %+v", got)
	}
	before := pods(t, ns)
	if len(before) != 4 {
		t.Errorf("%d pods for two replicas of two nodes", len(before))
	}
	selectsLeaders(t, ns, before)
	for _, n := range []int32{3, 1, 0, 2} {
		scale(t, ns, n)
		awaitReady(t, ns, "big")
		if got := sets(t, ns); len(got) != int(n) {
			t.Errorf("%d LeaderWorkerSets for %d replicas", len(got), n)
		}
		if after := pods(t, ns)["big-decode-0"]; n == 1 && after.UID != before["big-decode-0"].UID {
			t.Error("scaling replaced a pod of a replica that stayed")
		}
	}
}

// selectsLeaders checks that the Service has the pods that serve and no others.
func selectsLeaders(t *testing.T, ns string, all map[string]corev1.Pod) {
	t.Helper()
	var service corev1.Service
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big-decode"}, &service); err != nil {
		t.Fatal(err)
	}
	for name, pod := range all {
		if selects := matches(service.Spec.Selector, pod.Labels); selects != (pod.Labels[names.LabelRole] == names.Leader) {
			t.Errorf("the Service selects pod %s (%s): %v", name, pod.Labels[names.LabelRole], selects)
		}
	}
}

func scale(t *testing.T, ns string, n int32) {
	t.Helper()
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "big"}, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Replicas = &n
	})
}

func matches(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// awaitReady waits longer than the harness does: LeaderWorkerSet makes workers only when leaders are there.
func awaitReady(t *testing.T, ns, name string) *v1alpha1.DynamoGraphDeployment {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	harness.Eventually(t, patience, "graph "+name+" ready", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, g); err != nil {
			return false, err.Error()
		}
		for _, c := range g.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				return c.Status == metav1.ConditionTrue && c.ObservedGeneration == g.Generation, c.Reason + ": " + c.Message
			}
		}
		return false, "no Ready condition"
	})
	return g
}

func TestAnUpdateReplacesGroupsOneAfterAnother(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotation string
		lowest     int
	}{
		"one at a time":      {"", 2},
		"two may be missing": {"2", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.StartOperator(t, ns)
			b := sglang(ns, 3)
			if tc.annotation != "" {
				b.Obj().Spec.Services["Decode"].Annotations = map[string]string{names.AnnotationMaxUnavailable: tc.annotation}
			}
			create(t, b.Obj())
			awaitReady(t, ns, "big")
			before := pods(t, ns)
			frontend := deploymentGeneration(t, ns, "big-frontend")
			record := watchGroups(t, ns)
			harness.Change(t, client.ObjectKey{Namespace: ns, Name: "big"}, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
			})
			awaitReady(t, ns, "big")
			lowest := record.stop()
			if lowest < tc.lowest {
				t.Errorf("only %d of 3 groups were ready at some moment", lowest)
			}
			for name, pod := range pods(t, ns) {
				if pod.UID == before[name].UID || pod.Spec.Containers[0].Image != "registry.example.com/dynamo:2" {
					t.Errorf("pod %s was not replaced", name)
				}
			}
			if got := deploymentGeneration(t, ns, "big-frontend"); got != frontend {
				t.Errorf("the frontend changed too: generation %d, was %d", got, frontend)
			}
		})
	}
}

func TestABrokenUpdateTakesAsManyGroupsAsMayBeMissingAndNoMore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotation string
		changed    int
	}{
		"one at a time":      {"", 1},
		"two may be missing": {"2", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.StartOperator(t, ns)
			b := sglang(ns, 3)
			if tc.annotation != "" {
				b.Obj().Spec.Services["Decode"].Annotations = map[string]string{names.AnnotationMaxUnavailable: tc.annotation}
			}
			create(t, b.Obj())
			awaitReady(t, ns, "big")
			harness.Change(t, client.ObjectKey{Namespace: ns, Name: "big"}, func(g *v1alpha1.DynamoGraphDeployment) {
				g.Spec.Services["Decode"].Resources.Limits.GPU = "64" // no node has as many
			})
			changed := func() int {
				n := 0
				for _, set := range sets(t, ns) {
					if set.Generation > 1 {
						n++
					}
				}
				return n
			}
			harness.Eventually(t, patience, "the cause on the graph", func() (bool, string) {
				g := &v1alpha1.DynamoGraphDeployment{}
				if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big"}, g); err != nil {
					return false, err.Error()
				}
				ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
				return changed() == tc.changed && strings.Contains(ready.Message, "no node takes it"), ready.Message
			})
			if n := changed(); n != tc.changed {
				t.Errorf("%d groups were given up to a change that cannot run, want %d", n, tc.changed)
			}
		})
	}
}

func TestARestartReplacesEveryGroupAndThenSaysSo(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, sglang(ns, 2).Obj())
	awaitReady(t, ns, "big")
	before := pods(t, ns)
	record := watchGroups(t, ns)
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "big"}, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Restart = &v1alpha1.Restart{ID: "r1"}
	})
	harness.Eventually(t, patience, "restart completed", func() (bool, string) {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big"}, g); err != nil {
			return false, err.Error()
		}
		r := g.Status.Restart
		if r == nil || r.Phase != v1alpha1.RestartPhaseCompleted {
			return false, fmt.Sprintf("%+v", r)
		}
		// What is said to be complete must be so at that very moment.
		for name, pod := range pods(t, ns) {
			if pod.UID == before[name].UID || pod.Annotations[names.AnnotationRestartAt] != "r1" {
				t.Errorf("the restart is Completed, and pod %s was not replaced", name)
			}
		}
		return true, ""
	})
	if lowest := record.stop(); lowest < 1 {
		t.Error("no group was ready at some moment of the restart")
	}
}

func deploymentGeneration(t *testing.T, ns, name string) int64 {
	t.Helper()
	var dcd v1alpha1.DynamoComponentDeployment
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &dcd); err != nil {
		t.Fatal(err)
	}
	return dcd.Generation
}

// record follows how many groups of Decode have all their pods ready, from the events of the pods themselves.
type record struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	lowest int
}

func watchGroups(t *testing.T, ns string) *record {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var list corev1.PodList
	w, err := api.Watch(ctx, &list, client.InNamespace(ns), client.MatchingLabels{names.LabelComponent: "Decode"})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	r := &record{cancel: cancel, lowest: -1}
	known := map[string]*corev1.Pod{}
	initial := pods(t, ns)
	r.done.Go(func() {
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			if event.Type == watch.Deleted {
				delete(known, pod.Name)
			} else {
				known[pod.Name] = pod
			}
			if len(known) < len(initial) && r.lowest < 0 {
				continue // still reading what was there at the start
			}
			if ready := readyGroups(known); r.lowest < 0 || ready < r.lowest {
				r.lowest = ready
			}
		}
	})
	return r
}

func (r *record) stop() int {
	r.cancel()
	r.done.Wait()
	return r.lowest
}

func readyGroups(known map[string]*corev1.Pod) int {
	ready := map[string]int{}
	for _, pod := range known {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}) {
			ready[pod.Labels[lwsv1.SetNameLabelKey]]++
		}
	}
	groups := 0
	for _, n := range ready {
		if n == 2 {
			groups++
		}
	}
	return groups
}

func TestDeletingTheGraphLeavesNothing(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	create(t, sglang(ns, 2).Obj())
	g := awaitReady(t, ns, "big")
	if err := harness.Client(t).Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "everything gone", func() (bool, string) {
		if n := len(sets(t, ns)) + len(pods(t, ns)); n > 0 {
			return false, fmt.Sprintf("%d sets and pods are left", n)
		}
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), &v1alpha1.DynamoGraphDeployment{})
		return apierrors.IsNotFound(err), "the graph is still there"
	})
}

func TestABrokenGroupIsExplainedByItsPod(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	b := sglang(ns, 1)
	b.Obj().Spec.Services["Decode"].Resources.Limits.GPU = "64" // no node has as many
	create(t, b.Obj())
	harness.Eventually(t, patience, "the cause on the graph", func() (bool, string) {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big"}, g); err != nil {
			return false, err.Error()
		}
		for _, c := range g.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady {
				return strings.Contains(c.Message, "pod big-decode-0-0: no node takes it") && strings.Contains(c.Message, "nvidia.com/gpu"), c.Message
			}
		}
		return false, "no condition"
	})
}

func TestAQuotaThatRefusesThePodsOfAGroupIsNamed(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tight"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("1")}}}
	create(t, quota)
	create(t, sglang(ns, 1).Obj())
	message := func() string {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big"}, g); err != nil {
			t.Fatal(err)
		}
		if ready := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			return ready.Message
		}
		return ""
	}
	harness.Eventually(t, patience, "the quota on the graph", func() (bool, string) {
		said := message()
		return strings.Contains(said, "exceeded quota: tight"), said
	})
	if err := harness.Client(t).Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "big")
}

func TestAnAdapterScalesGroups(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	b := sglang(ns, 1)
	b.Obj().Spec.Services["Decode"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	create(t, b.Obj())
	awaitReady(t, ns, "big")
	for _, n := range []int32{3, 0, 1} {
		harness.Scale(t, ns, "big-decode", n)
		harness.Eventually(t, patience, "the groups scaled", func() (bool, string) {
			return len(sets(t, ns)) == int(n), fmt.Sprintf("%d sets", len(sets(t, ns)))
		})
		awaitReady(t, ns, "big")
	}
}
