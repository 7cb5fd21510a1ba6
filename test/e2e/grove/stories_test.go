// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const patience = time.Minute

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// mixed is a graph with a frontend, a worker of one node and one of three.
func mixed(ns string) *builders.GraphBuilder {
	return builders.Graph(ns, "g").
		Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Prefill", v1alpha1.ComponentTypePrefill, builders.Args("python3 -m dynamo.sglang"), builders.Replicas(2)).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.sglang --tp 3"), builders.Nodes(3), builders.Replicas(2))
}

func change(t *testing.T, ns string, edit func(*v1alpha1.DynamoGraphDeployment)) {
	t.Helper()
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "g"}, edit)
}

func get[T client.Object](t *testing.T, ns, name string, into T) T {
	t.Helper()
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, into); err != nil {
		t.Fatalf("get %T %s: %v", into, name, err)
	}
	return into
}

// awaitMessage waits until the Ready condition of the graph is False and says something.
func awaitMessage(t *testing.T, ns, want string) {
	t.Helper()
	harness.Eventually(t, patience, "a message with "+want, func() (bool, string) {
		g := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{})
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil {
			return false, "no condition"
		}
		return c.Status == metav1.ConditionFalse && c.ObservedGeneration == g.Generation && strings.Contains(c.Message, want), c.Message
	})
}

func aGraphBecomesReady(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	g := harness.AwaitReady(t, ns, "g")
	for service, want := range map[string]v1alpha1.ServiceReplicaStatus{
		"Frontend": {ComponentKind: v1alpha1.ComponentKindPodClique, ComponentName: "g-0-frontend", Replicas: 1, UpdatedReplicas: 1},
		"Prefill":  {ComponentKind: v1alpha1.ComponentKindPodClique, ComponentName: "g-0-prefill", Replicas: 2, UpdatedReplicas: 2},
		"Decode":   {ComponentKind: v1alpha1.ComponentKindPodCliqueScalingGroup, ComponentName: "g-0-decode", Replicas: 2, UpdatedReplicas: 2},
	} {
		got := g.Status.Services[service]
		serving := got.ReadyReplicas
		if want.ComponentKind == v1alpha1.ComponentKindPodCliqueScalingGroup {
			serving = got.AvailableReplicas
		}
		if got.ComponentKind != want.ComponentKind || got.ComponentName != want.ComponentName || got.Replicas != want.Replicas ||
			got.UpdatedReplicas != want.UpdatedReplicas || serving == nil || *serving != want.Replicas {
			t.Errorf("%s: %+v", service, got)
		}
	}
	var components v1alpha1.DynamoComponentDeploymentList
	if err := harness.Client(t).List(t.Context(), &components, client.InNamespace(ns)); err != nil || len(components.Items) > 0 {
		t.Errorf("%d components beside the PodCliqueSet, %v", len(components.Items), err)
	}
	for _, name := range []string{"g-frontend", "g-prefill", "g-decode"} {
		get(t, ns, name, &corev1.Service{})
	}
	set := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
	for _, clique := range set.Spec.Template.Cliques {
		if clique.Spec.PodSpec.SchedulerName != names.KAIScheduler || clique.Labels[names.LabelQueue] != "dynamo" {
			t.Errorf("clique %s is scheduled by %q in queue %q", clique.Name, clique.Spec.PodSpec.SchedulerName, clique.Labels[names.LabelQueue])
		}
	}
	settled(t, ns, set)
}

// settled checks that nobody writes any more.
func settled(t *testing.T, ns string, set *grovev1alpha1.PodCliqueSet) {
	t.Helper()
	before := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{}).ResourceVersion
	// A label of somebody else's makes a pass happen.
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { metav1.SetMetaDataLabel(&g.ObjectMeta, "poke", before) })
	harness.AwaitReady(t, ns, "g")
	if after := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{}); after.Generation != set.Generation {
		t.Errorf("the PodCliqueSet changed: generation %d, was %d", after.Generation, set.Generation)
	}
}

func replicasFollow(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	for _, n := range []int32{3, 1, 4} {
		change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Prefill"].Replicas, g.Spec.Services["Decode"].Replicas = new(n), new(n)
		})
		harness.AwaitReady(t, ns, "g")
		if got := get(t, ns, "g-0-prefill", &grovev1alpha1.PodClique{}).Spec.Replicas; got != n {
			t.Errorf("PodClique has %d replicas, want %d", got, n)
		}
		if got := get(t, ns, "g-0-decode", &grovev1alpha1.PodCliqueScalingGroup{}).Spec.Replicas; got != n {
			t.Errorf("PodCliqueScalingGroup has %d replicas, want %d", got, n)
		}
	}
}

func adaptersScale(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	b := mixed(ns)
	for _, service := range []string{"Prefill", "Decode"} {
		b.Obj().Spec.Services[service].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	}
	create(t, b.Obj())
	harness.AwaitReady(t, ns, "g")
	for service, n := range map[string]int32{"prefill": 4, "decode": 3} {
		harness.Scale(t, ns, "g-"+service, n)
	}
	harness.Eventually(t, patience, "Grove scaled", func() (bool, string) {
		clique, group := get(t, ns, "g-0-prefill", &grovev1alpha1.PodClique{}), get(t, ns, "g-0-decode", &grovev1alpha1.PodCliqueScalingGroup{})
		return clique.Spec.Replicas == 4 && group.Spec.Replicas == 3, fmt.Sprint(clique.Spec.Replicas, group.Spec.Replicas)
	})
	harness.AwaitReady(t, ns, "g")
	harness.Eventually(t, patience, "the adapter counting them", func() (bool, string) {
		adapter := get(t, ns, "g-decode", &v1alpha1.DynamoGraphDeploymentScalingAdapter{})
		return adapter.Status.Replicas == 3 && adapter.Status.Selector != "", fmt.Sprintf("%+v", adapter.Status)
	})
}

func anUpdateIsReadyWhenItsPodsAre(t *testing.T) {
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	others := get(t, ns, "g-0-frontend", &grovev1alpha1.PodClique{}).Status.CurrentPodTemplateHash
	sim.Hold("g-0-prefill")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Prefill"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	})
	awaitMessage(t, ns, "podclique/g-0-prefill: desired=2, ready=1")
	if g := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{}); !meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionAvailable) {
		t.Error("the graph is not Available although every service has a replica that serves")
	}
	sim.Release("g-0-prefill")
	harness.AwaitReady(t, ns, "g")
	if after := get(t, ns, "g-0-frontend", &grovev1alpha1.PodClique{}).Status.CurrentPodTemplateHash; *after != *others {
		t.Error("the frontend's pods changed too")
	}
}

// restarted waits for the end of a restart and returns every list of services in progress that was seen on the way.
func restarted(t *testing.T, ns, id string) []string {
	t.Helper()
	var seen []string
	harness.Eventually(t, patience, "restart "+id+" completed", func() (bool, string) {
		g := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{})
		r := g.Status.Restart
		if r == nil || r.ObservedID != id {
			return false, fmt.Sprintf("%+v", r)
		}
		if now := strings.Join(r.InProgress, "+"); now != "" && !slices.Contains(seen, now) {
			seen = append(seen, now)
		}
		ready := meta.IsStatusConditionTrue(g.Status.Conditions, v1alpha1.ConditionReady)
		if ready && r.Phase != v1alpha1.RestartPhaseCompleted {
			t.Errorf("Ready while the restart is %s", r.Phase)
		}
		return r.Phase == v1alpha1.RestartPhaseCompleted, fmt.Sprintf("%+v", r)
	})
	return seen
}

func aRestartGoesFromServiceToService(t *testing.T) {
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	sim.Hold("g-0-prefill")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Restart = &v1alpha1.Restart{ID: "r1", Strategy: &v1alpha1.RestartStrategy{Order: []string{"Decode", "Prefill", "Frontend"}}}
	})
	awaitMessage(t, ns, "restart r1: waiting for Prefill (1 of 3 done)")
	token := func(clique string) string {
		for _, c := range get(t, ns, "g", &grovev1alpha1.PodCliqueSet{}).Spec.Template.Cliques {
			if c.Name == clique {
				return c.Annotations[names.AnnotationRestartAt]
			}
		}
		return "no such clique"
	}
	if token("decode-ldr") != "r1" || token("decode-wkr") != "r1" || token("prefill") != "r1" || token("frontend") != "" {
		t.Errorf("tokens: %q %q %q %q", token("decode-ldr"), token("decode-wkr"), token("prefill"), token("frontend"))
	}
	sim.Release("g-0-prefill")
	if seen := restarted(t, ns, "r1"); slices.Contains(seen, "Decode+Prefill") {
		t.Errorf("two services at once: %v", seen)
	}
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Restart = nil })
	harness.AwaitReady(t, ns, "g")
	if r := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{}).Status.Restart; r == nil || r.Phase != v1alpha1.RestartPhaseCompleted || token("frontend") != "r1" {
		t.Errorf("after the request was removed: %+v, token %q", r, token("frontend"))
	}
}

func aParallelRestartWaitsForAll(t *testing.T) {
	ns := harness.Namespace(t)
	sim := harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	sim.Hold("g-0-frontend")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Restart = &v1alpha1.Restart{ID: "all", Strategy: &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyTypeParallel}}
	})
	awaitMessage(t, ns, "restart all: waiting for Frontend (2 of 3 done)")
	sim.Release("g-0-frontend")
	restarted(t, ns, "all")
}

func whatGroveHoldsIsRefused(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	set := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Multinode.NodeCount = 4 })
	awaitMessage(t, ns, "spec.services[Decode].multinode.nodeCount: Invalid value: 4: replicas of this service have 3 nodes")
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Multinode.NodeCount = 3
		g.Spec.Services["Prefill"].ExtraPodSpec.PodSpec = &corev1.PodSpec{SchedulerName: "other"}
	})
	awaitMessage(t, ns, "spec.services[Prefill].extraPodSpec.schedulerName: Invalid value: \"other\"")
	if after := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{}); after.Generation != set.Generation {
		t.Error("a refused change reached the PodCliqueSet")
	}
	if g := get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{}); g.Status.Services["Decode"].Replicas != 2 {
		t.Errorf("the counts are lost: %+v", g.Status.Services)
	}
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Prefill"].ExtraPodSpec.PodSpec = nil })
	harness.AwaitReady(t, ns, "g")
}

func aMissingQueueIsNamed(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Annotation(names.AnnotationQueue, " "+ns+" ").Obj())
	awaitMessage(t, ns, "KAI queue not found in cluster")
	queue(t, ns)
	harness.AwaitReady(t, ns, "g")
}

func aGraphMovesOffGroveAndBack(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	harness.SimulateDeployments(t, ns)
	create(t, builders.TwoComponents(ns, "g").Obj())
	harness.AwaitReady(t, ns, "g")
	key := client.ObjectKey{Namespace: ns, Name: "g"}
	move := func(value string, gone client.Object) {
		change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
			metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationEnableGrove, value)
		})
		harness.Eventually(t, patience, fmt.Sprintf("%T gone", gone), func() (bool, string) {
			err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(gone), gone)
			return apierrors.IsNotFound(err), "it is still there"
		})
		harness.Eventually(t, patience, "ready on the other side", func() (bool, string) {
			g := &v1alpha1.DynamoGraphDeployment{}
			if err := harness.Client(t).Get(t.Context(), key, g); err != nil {
				return false, err.Error()
			}
			c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
			return c.Status == metav1.ConditionTrue && (g.Status.Services["Decode"].ComponentKind == v1alpha1.ComponentKindPodClique) == (value != names.False), c.Message
		})
	}
	set := &grovev1alpha1.PodCliqueSet{}
	set.Namespace, set.Name = ns, "g"
	move(names.False, set)
	component := get(t, ns, "g-decode", &v1alpha1.DynamoComponentDeployment{})
	if service := get(t, ns, "g-decode", &corev1.Service{}); !metav1.IsControlledBy(service, component) {
		t.Errorf("the Service belongs to %v", service.OwnerReferences)
	}
	move(names.True, component)
	get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
	if service := get(t, ns, "g-decode", &corev1.Service{}); !metav1.IsControlledBy(service, get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{})) {
		t.Errorf("the Service belongs to %v", service.OwnerReferences)
	}
}

func aDeletedGraphLeavesNothing(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	g := harness.AwaitReady(t, ns, "g")
	if err := harness.Client(t).Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "everything gone", func() (bool, string) {
		left := 0
		for _, list := range []client.ObjectList{
			&grovev1alpha1.PodCliqueSetList{}, &grovev1alpha1.PodCliqueList{}, &grovev1alpha1.PodCliqueScalingGroupList{}, &corev1.ServiceList{},
			&v1alpha1.DynamoGraphDeploymentList{},
		} {
			if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
				return false, err.Error()
			}
			left += meta.LenList(list)
		}
		return left == 0, fmt.Sprintf("%d objects are left", left)
	})
}

func grovesRefusalIsShown(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	g := mixed(ns).Obj() // Grove wants one scheduler for all cliques
	g.Spec.Services["Frontend"].ExtraPodSpec.PodSpec = &corev1.PodSpec{SchedulerName: "mine"}
	create(t, g)
	awaitMessage(t, ns, "the API server refused it")
	awaitMessage(t, ns, "schedulerName")
}

func editsOfTheSet(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(ns).Obj())
	harness.AwaitReady(t, ns, "g")
	set := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
	set.Spec.Template.TerminationDelay = &metav1.Duration{Duration: time.Hour}
	metav1.SetMetaDataAnnotation(&set.ObjectMeta, "example.com/mine", "stays")
	if err := harness.Client(t).Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "the delay restored", func() (bool, string) {
		live := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
		return live.Spec.Template.TerminationDelay.Duration == 15*time.Minute && live.Annotations["example.com/mine"] == "stays",
			fmt.Sprint(live.Spec.Template.TerminationDelay)
	})
}

// adoptedGang has a PodCliqueSet as another release made it, with a smaller gang, which Grove does not let grow.
func adoptedGang(t *testing.T) {
	ns, elsewhere := harness.Namespace(t), harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, mixed(elsewhere).Obj())
	made := &grovev1alpha1.PodCliqueSet{}
	harness.Eventually(t, patience, "a set to copy", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: elsewhere, Name: "g"}, made)
		return err == nil, fmt.Sprint(err)
	})
	// Nothing is made for a graph of several nodes off Grove, because there is nothing else here.
	create(t, mixed(ns).Annotation(names.AnnotationEnableGrove, names.False).Obj())
	awaitMessage(t, ns, "no multinode orchestrator available")
	owner := made.OwnerReferences[0].DeepCopy()
	owner.UID = get(t, ns, "g", &v1alpha1.DynamoGraphDeployment{}).UID
	old := &grovev1alpha1.PodCliqueSet{ObjectMeta: metav1.ObjectMeta{
		Name: "g", Namespace: ns, Labels: made.Labels, Annotations: map[string]string{names.AnnotationAppliedHash: "v1:of-another-release"},
		OwnerReferences: []metav1.OwnerReference{*owner},
	}, Spec: *made.Spec.DeepCopy()}
	for _, clique := range old.Spec.Template.Cliques {
		clique.Spec.MinAvailable = new(int32(1))
	}
	create(t, old)
	change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) {
		delete(g.Annotations, names.AnnotationEnableGrove)
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = "registry.example.com/dynamo:2"
	})
	harness.AwaitReady(t, ns, "g")
	after := get(t, ns, "g", &grovev1alpha1.PodCliqueSet{})
	for _, clique := range after.Spec.Template.Cliques {
		if *clique.Spec.MinAvailable != 1 {
			t.Errorf("the gang of %s changed to %d", clique.Name, *clique.Spec.MinAvailable)
		}
	}
	if after.UID != old.UID {
		t.Error("the PodCliqueSet was made anew")
	}
}
