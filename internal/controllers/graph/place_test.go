// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"testing"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

func TestAGraphStaysWhereItIsUnlessItsOwnerMovesIt(t *testing.T) {
	t.Parallel()
	component := apply.Children{{GroupKind: componentKind}: &v1alpha1.DynamoComponentDeployment{}}
	set := apply.Children{{GroupKind: cliqueSetKind}: &grovev1alpha1.PodCliqueSet{}}
	const silent = "-"
	for name, tc := range map[string]struct {
		says     string
		served   bool
		children apply.Children
		ran      bool
		want     bool
	}{
		"new, no Grove":                            {says: silent},
		"new, Grove":                               {says: silent, served: true, want: true},
		"new, Grove, said empty":                   {says: "", served: true, want: true},
		"new, Grove, said no":                      {says: "FALSE", served: true},
		"new, no Grove, said yes":                  {says: "true"},
		"components, Grove came":                   {says: silent, served: true, children: component},
		"components, Grove came, said yes":         {says: "true", served: true, children: component, want: true},
		"on Grove":                                 {says: silent, served: true, children: set, want: true},
		"on Grove, said no":                        {says: "false", served: true, children: set},
		"on Grove, which left":                     {says: silent, ran: true, want: true},
		"on Grove, which left, said no":            {says: "false", ran: true},
		"halfway to Grove, still there both sides": {says: silent, served: true, children: apply.Children{{GroupKind: componentKind}: &v1alpha1.DynamoComponentDeployment{}, {GroupKind: cliqueSetKind}: &grovev1alpha1.PodCliqueSet{}}, want: true},
	} {
		g := builders.TwoComponents("ns", "g").Obj()
		if tc.says != silent {
			metav1.SetMetaDataAnnotation(&g.ObjectMeta, names.AnnotationEnableGrove, tc.says)
		}
		if tc.ran {
			g.Status.Services = map[string]v1alpha1.ServiceReplicaStatus{"Decode": {ComponentKind: v1alpha1.ComponentKindPodClique}}
		}
		if got := onGrove(g, tc.served, tc.children); got != tc.want {
			t.Errorf("%s: on Grove is %v", name, got)
		}
	}
}

func TestCountsOfGroveCountOnlyForTheLatestSet(t *testing.T) {
	t.Parallel()
	set := func(generation, observed int64, hash string) *grovev1alpha1.PodCliqueSet {
		s := &grovev1alpha1.PodCliqueSet{ObjectMeta: metav1.ObjectMeta{Generation: generation}}
		s.Status.ObservedGeneration, s.Status.CurrentGenerationHash = &observed, &hash
		return s
	}
	ready := func() *grovev1alpha1.PodClique {
		q := &grovev1alpha1.PodClique{ObjectMeta: metav1.ObjectMeta{Name: "q", UID: "u", Generation: 2}}
		q.Spec.Replicas = 2
		q.Status = grovev1alpha1.PodCliqueStatus{
			ObservedGeneration: new(int64(2)), Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, CurrentPodCliqueSetGenerationHash: new("h"),
		}
		return q
	}
	for name, tc := range map[string]struct {
		set    *grovev1alpha1.PodCliqueSet
		change func(*grovev1alpha1.PodClique)
		why    string
		serves bool
		asked  *int32
	}{
		"not yet asked for more": {set: set(3, 3, "h"), why: "podclique/q: desired=3, asked of Grove=2", serves: true, asked: new(int32(3))},
		"ready":                  {set: set(3, 3, "h"), change: nil, why: "", serves: true},
		"no set":                 {set: nil, change: nil, why: "podclique/q: waiting for its PodCliqueSet", serves: true},
		"set not processed":      {set: set(4, 3, "h"), change: nil, why: "podclique/q: Grove has not processed the latest PodCliqueSet yet", serves: true},
		"set not rolled out":     {set: set(3, 3, "new"), change: nil, why: "podclique/q: the latest PodCliqueSet has not been rolled out yet", serves: true},
		"never observed":         {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.ObservedGeneration = nil }, why: "podclique/q: observedGeneration is nil", serves: true},
		"observed in the past":   {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Generation = 3 }, why: "podclique/q: spec not yet processed: generation=3, observedGeneration=2", serves: true},
		"one short":              {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.ReadyReplicas = 1 }, why: "podclique/q: desired=2, ready=1", serves: true},
		"old ones":               {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.UpdatedReplicas = 1 }, why: "podclique/q: desired=2, updated=1", serves: true},
		"surplus":                {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.Replicas = 3 }, why: "podclique/q: performing rolling update: desired=2, replicas=3", serves: true},
		"none wanted":            {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Spec.Replicas, q.Status.ReadyReplicas = 0, 0 }, why: "", serves: true},
		"none serves":            {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.ReadyReplicas = 0 }, why: "podclique/q: desired=2, ready=0", serves: false},
		"short and not rolled":   {set: set(3, 3, "new"), change: func(q *grovev1alpha1.PodClique) { q.Status.ReadyReplicas = 1 }, why: "podclique/q: desired=2, ready=1", serves: true},
		"Grove of older release": {set: set(3, 3, "h"), change: func(q *grovev1alpha1.PodClique) { q.Status.CurrentPodCliqueSetGenerationHash = nil }, why: "", serves: true},
	} {
		q := ready()
		if tc.change != nil {
			tc.change(q)
		}
		got := asClique("q", tc.asked, q, tc.set)
		if got.Why != tc.why || got.Serves != tc.serves || got.Counts.ComponentKind == "" {
			t.Errorf("%s: why %q, serves %v, counts %+v", name, got.Why, got.Serves, got.Counts)
		}
	}
	if got := asScalingGroup("s", nil, &grovev1alpha1.PodCliqueScalingGroup{}, set(1, 1, "h")); got.Why != "pcsg/s: resource not found" ||
		got.Counts.ComponentKind != v1alpha1.ComponentKindPodCliqueScalingGroup || got.Exists {
		t.Errorf("what is missing: %+v", got)
	}
}

func TestTellingOneServiceOfARestartMakesNothingUnknownAboutTheOthers(t *testing.T) {
	t.Parallel()
	g := builders.Graph("ns", "g").Service("a", "worker").Service("b", "worker").Obj()
	g.Spec.Restart = &v1alpha1.Restart{ID: "r"}
	g.Status.Restart = &v1alpha1.RestartStatus{ObservedID: "r", Phase: v1alpha1.RestartPhaseRestarting, InProgress: []string{"b"}}
	seen := Seen{OnGrove: true, Services: map[string]Service{
		"a": {Exists: true, Restart: "r", Why: "outdated", Outdated: true},
		"b": {Exists: true, Restart: "r", Why: "outdated", Outdated: true},
	}}
	if got := nextRestart(g, seen).Status; got.Phase != v1alpha1.RestartPhaseRestarting || len(got.InProgress) != 1 || got.InProgress[0] != "b" {
		t.Errorf("%+v", got)
	}
}

func TestAGraphThatWasJustBegunStaysWhereItWasBegunThoughNoCacheShowsIt(t *testing.T) {
	t.Parallel()
	g := builders.TwoComponents("ns", "chat").Obj()
	g.UID = "g"
	owned := func(controller types.UID) *v1alpha1.DynamoComponentDeployment {
		return &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: "chat-decode", UID: "c", ResourceVersion: "1",
			OwnerReferences: []metav1.OwnerReference{{Kind: v1alpha1.KindDynamoGraphDeployment, Name: g.Name, UID: controller, Controller: new(true)}},
		}}
	}
	for name, tc := range map[string]struct {
		made client.Object
		want bool
	}{
		"nothing was made": {nil, true},
		"its component":    {owned(g.UID), false},
		"another's":        {owned("another"), true},
	} {
		store := recent.NewStore(clock.RealClock{})
		r := &Reconciler{Tools: controllers.Tools{Apply: apply.NewApplier(nil, nil, nil, store, clock.RealClock{})}}
		if tc.made != nil {
			store.Wrote(componentOf(g, "Decode"), tc.made)
		}
		if got := onGrove(g, true, r.workloads(g, apply.Children{})); got != tc.want {
			t.Errorf("%s: on Grove %t, want %t", name, got, tc.want)
		}
	}
}
