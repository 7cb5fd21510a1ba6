// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// slow is how long a load takes in which something else happens.
const slow = 2 * time.Second

// newLoadingWard is a ward whose engines are all in the middle of loading an adapter.
func newLoadingWard(t *testing.T, workers int32) *ward {
	t.Helper()
	w := newWard(t, workers)
	for _, e := range w.all() {
		e.Faults().Set(mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultLatency, Delay: metav1.Duration{Duration: slow}})
	}
	w.create(w.adapter("sql", "s3://bucket/sql"))
	harness.Eventually(w.T, patience, "loads are under way", func() (bool, string) {
		for _, e := range w.all() {
			if faults := e.Faults().List(); len(faults) == 0 || faults[0].Struck == 0 {
				return false, e.pod + " was not asked"
			}
		}
		return true, ""
	})
	return w
}

func TestAModelThatIsDeletedWhileItIsLoadedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newLoadingWard(t, 2)
	w.remove("sql")
	w.awaitGone("sql", patience)
	if n := w.having("acme/sql"); n != 0 {
		t.Errorf("%d endpoints have the adapter of a model that is gone", n)
	}
	for _, e := range w.all() {
		if got := e.Counters(); got.Loads["acme/sql"] != got.Unloads["acme/sql"] {
			t.Errorf("%s: %+v", e.pod, got)
		}
	}
}

func TestAnOperatorThatEndsDuringALoadLosesNothing(t *testing.T) {
	t.Parallel()
	w := newLoadingWard(t, 3)
	w.operator.Stop()
	w.startOperator()
	w.from("s3://bucket/sql", w.awaitReady("sql"))
	for _, e := range w.all() {
		// The next one cannot tell a load that is under way from one that was never asked for.
		if loads := e.Counters().Loads["acme/sql"]; loads < 1 || loads > 2 || len(e.Loaded()) != 1 {
			t.Errorf("%s has %v after %d loads", e.pod, e.Loaded(), loads)
		}
	}
}

func TestASourceIsCorrectedAfterAnAnswerThatLeavesDoubt(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	for _, e := range w.all() {
		e.Faults().Set(mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultStatus, Status: http.StatusInternalServerError, Message: "no such bucket"})
	}
	w.create(w.adapter("sql", "s3://wrong/sql"))
	w.awaitMessage("sql", "no such bucket")
	for _, e := range w.all() {
		e.Faults().Set()
	}
	w.change("sql", `{"spec":{"source":{"uri":"s3://right/sql"}}}`)
	w.from("s3://right/sql", w.awaitReady("sql"))
}

func TestAPodThatIsGoingIsUnloadedAndNotCounted(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")
	going := w.all()[0]
	pod := &corev1.Pod{}
	w.read(going.pod, pod)
	const held = "example.com/held"
	before := pod.DeepCopy()
	controllerutil.AddFinalizer(pod, held)
	if err := harness.Client(t).Patch(t.Context(), pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := harness.Client(t).Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "the adapter is unloaded", func() (bool, string) {
		return len(going.Loaded()) == 0, fmt.Sprint(going.Loaded())
	})
	w.await("sql", "does not count it", func(m *v1alpha1.DynamoModel) bool {
		return !slices.ContainsFunc(m.Status.Endpoints, func(e v1alpha1.EndpointInfo) bool { return e.PodName == going.pod })
	})
	w.read(going.pod, pod)
	before = pod.DeepCopy()
	controllerutil.RemoveFinalizer(pod, held)
	if err := client.IgnoreNotFound(harness.Client(t).Patch(t.Context(), pod, client.MergeFrom(before))); err != nil {
		t.Fatal(err)
	}
}

// TestAPodWithAnAddressOfTheSixthVersionIsCalledThere makes what controllers of a cluster of the sixth version make: this
// one has addresses of the fourth.
func TestAPodWithAnAddressOfTheSixthVersionIsCalledThere(t *testing.T) {
	t.Parallel()
	w := newWard(t, 1)
	const address = "fd00:10:244::17"
	model := &w.pods()[0]
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "sixth", Labels: maps.Clone(model.Labels)},
		Spec:       *model.Spec.DeepCopy(),
	}
	delete(pod.Labels, appsv1.DefaultDeploymentUniqueLabelKey) // or it would be taken for one too many
	pod.Spec.NodeName, pod.Spec.SchedulerName = "", "nobody"
	w.create(pod)
	pod.Status.PodIPs = []corev1.PodIP{{IP: address}}
	pod.Status.PodIP = address
	if err := harness.Client(t).Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	w.create(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "sixth", Labels: map[string]string{
			names.LabelBaseModelHash: names.ModelHash(base), discoveryv1.LabelServiceName: "sixth",
		}},
		AddressType: discoveryv1.AddressTypeIPv6,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: w.namespace, Name: pod.Name, UID: pod.UID},
		}},
	})
	fresh := w.start(pod)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	m := w.await("sql", "is on both", func(m *v1alpha1.DynamoModel) bool { return m.Status.ReadyEndpoints == 2 })
	if !slices.ContainsFunc(m.Status.Endpoints, func(e v1alpha1.EndpointInfo) bool { return e.Address == "http://["+address+"]:9090" }) {
		t.Errorf("endpoints: %v", m.Status.Endpoints)
	}
	if got := fresh.Counters().Loads["acme/sql"]; got != 1 {
		t.Errorf("it was loaded %d times there", got)
	}
}

func TestARenamedAdapterFindsRoomWhereThereIsRoomForOne(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2, func(o *mockengine.WorkerOptions) { o.AdapterSlots = 1 })
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")
	w.change("sql", `{"spec":{"modelName":"acme/better"}}`)
	w.awaitMessage("sql", "no free slot")
	w.awaitReady("sql")
	if n := w.having("acme/better"); n != 2 || w.having("acme/sql") != 0 {
		t.Errorf("%d of 2 endpoints have the new name, %d the old one", n, w.having("acme/sql"))
	}
}
