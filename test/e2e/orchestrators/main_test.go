// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package orchestrators tells what happens when the APIs of Grove, LeaderWorkerSet and Volcano come to a cluster in which
// the operator runs, and when they go. Its stories change the whole cluster and are one test.
package orchestrators

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/lws"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/simulator/crds"
)

const patience = time.Minute

func TestMain(m *testing.M) { harness.Main(m) }

func TestAPIsComeAndGoUnderARunningOperator(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	operator := harness.StartOperator(t, harness.ClusterWide, harness.WithFlags("--mpi-run-ssh-secret-namespace="+ns))
	harness.SimulateDeployments(t, ns)

	before := builders.TwoComponents(ns, "before").Obj()
	create(t, before)
	harness.AwaitReady(t, ns, "before")
	create(t, several(ns, "several", names.False))
	awaitReason(t, ns, "several", "no multinode orchestrator available")

	// LeaderWorkerSet comes: what waited for it is made.
	sets := leaderWorkerSets(t)
	harness.InstallCRDs(t, sets...)
	plain := awaitSet(t, ns, "several-worker-0")
	if plain.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.SchedulerName != "" {
		t.Error("pods are left to Volcano, which is not there")
	}

	// Volcano comes: it schedules what is made from now on. That it leaves alone what serves is shown where pods run.
	volcano, err := crds.Volcano()
	if err != nil {
		t.Fatal(err)
	}
	harness.InstallCRDs(t, volcano)
	awaitVolcano(t, ns)

	// Grove comes: new graphs run on it, the others stay.
	harness.SimulateGrove(t, ns)
	grove := harness.GroveCRDs(t)
	harness.InstallCRDs(t, grove...)
	awaitGrove(t, ns)
	create(t, builders.TwoComponents(ns, "after").Obj())
	harness.AwaitReady(t, ns, "after")
	stays(t, ns, before)

	// Grove goes: graphs on it say so, the others do not care.
	for _, definition := range topDown(grove) {
		harness.RemoveCRDs(t, definition)
	}
	awaitReason(t, ns, "after", "whose API the cluster no longer serves")
	harness.Change(t, client.ObjectKeyFromObject(before), func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Replicas = new(int32(2))
	})
	harness.AwaitReady(t, ns, "before")

	// And comes back.
	harness.InstallCRDs(t, grove...)
	harness.AwaitReady(t, ns, "after")
	stays(t, ns, before)
	operator.Stop()
}

// A restricted operator may not watch definitions. This test is over before the other begins, whose operator works everywhere.
func TestAnAPIThatComesIsNoticedByARestrictedOperator(t *testing.T) {
	ns := harness.Namespace(t)
	operator := harness.StartOperator(t, ns, harness.WithAPIPoll(time.Second))
	create(t, several(ns, "several", names.False))
	awaitReason(t, ns, "several", "no multinode orchestrator available")
	sets := leaderWorkerSets(t)
	harness.InstallCRDs(t, sets...)
	awaitSet(t, ns, "several-worker-0")
	operator.Stop()
	harness.RemoveCRDs(t, sets...)
}

// topDown has PodCliqueSets first: what makes objects of the other kinds has to be gone before these can go.
func topDown(definitions []*apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceDefinition {
	return slices.SortedStableFunc(slices.Values(definitions), func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return cmp.Compare(rank(a), rank(b))
	})
}

func rank(d *apiextensionsv1.CustomResourceDefinition) int {
	return slices.Index([]string{"clustertopologies", "podcliques", "podcliquescalinggroups", "podcliquesets"}, d.Spec.Names.Plural) * -1
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// several is a graph whose worker spans nodes.
func several(ns, name, onGrove string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(ns, name).Annotation(names.AnnotationEnableGrove, onGrove).
		Service("Worker", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.sglang --tp 2"), builders.Nodes(2)).Obj()
}

// leaderWorkerSets are the definitions of the release that the module file names; its controller does not run here.
func leaderWorkerSets(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	found, err := localcluster.ModuleCRDs(t.Context(), "sigs.k8s.io/lws@v0.8.0", "config/crd/bases/*leaderworkersets.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("%d definitions: %v", len(found), err)
	}
	return found
}

func awaitReason(t *testing.T, ns, name, want string) {
	t.Helper()
	harness.Eventually(t, patience, name+" says "+want, func() (bool, string) {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, g); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, want), fmt.Sprint(c)
	})
}

func awaitSet(t *testing.T, ns, name string) *lwsv1.LeaderWorkerSet {
	t.Helper()
	set := &lwsv1.LeaderWorkerSet{}
	harness.Eventually(t, patience, "LeaderWorkerSet "+name, func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, set)
		return err == nil, fmt.Sprint(err)
	})
	return set
}

// awaitVolcano makes graphs until one is left to Volcano: the operator hears of the API a moment after the server has it.
func awaitVolcano(t *testing.T, ns string) {
	t.Helper()
	attempt := 0
	harness.Eventually(t, patience, "a new graph left to Volcano", func() (bool, string) {
		attempt++
		name := fmt.Sprintf("gang%d", attempt)
		create(t, several(ns, name, names.False))
		set := awaitSet(t, ns, name+"-worker-0")
		gang := &unstructured.Unstructured{}
		gang.SetGroupVersionKind(lws.PodGroupKind)
		if set.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.SchedulerName != names.VolcanoScheduler {
			return false, "its pods are not"
		}
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(set), gang)
		return err == nil, fmt.Sprint(err)
	})
}

// awaitGrove makes graphs until one runs on Grove.
func awaitGrove(t *testing.T, ns string) {
	t.Helper()
	attempt := 0
	harness.Eventually(t, patience, "a new graph on Grove", func() (bool, string) {
		attempt++
		name := fmt.Sprintf("try%d", attempt)
		create(t, builders.TwoComponents(ns, name).Obj())
		g := harness.AwaitReady(t, ns, name)
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), &grovev1alpha1.PodCliqueSet{})
		return err == nil, fmt.Sprint(err)
	})
}

// stays checks that a graph runs where it ran before Grove came.
func stays(t *testing.T, ns string, g *v1alpha1.DynamoGraphDeployment) {
	t.Helper()
	now := harness.AwaitReady(t, ns, g.Name)
	if kind := now.Status.Services["Decode"].ComponentKind; kind != v1alpha1.ComponentKindDeployment {
		t.Errorf("graph %s runs as %s", g.Name, kind)
	}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: g.Name + "-decode"}, &corev1.Service{}); err != nil {
		t.Error(err)
	}
}
