// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func conditionOf(m *v1alpha1.DynamoModel) metav1.Condition {
	if c := conditions.Find(m.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// contains tells whether a model of the latest generation says something, of itself or of an endpoint.
func contains(m *v1alpha1.DynamoModel, text string) bool {
	c := conditionOf(m)
	if c.ObservedGeneration != m.Generation {
		return false
	}
	said := c.Message
	for _, e := range m.Status.Endpoints {
		said += "\n" + e.Message
	}
	return strings.Contains(said, text)
}

// having counts the engines that have an adapter.
func (w *ward) having(name string) int {
	n := 0
	for _, e := range w.all() {
		if _, ok := e.Loaded()[name]; ok {
			n++
		}
	}
	return n
}

func TestAPodThatStartsAgainGetsItsAdaptersWithinSeconds(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")
	began := time.Now()
	fresh := w.restart(w.all()[0])
	harness.Eventually(t, 10*time.Second, "the adapter is there again", func() (bool, string) {
		return len(fresh.Loaded()) == 1, fmt.Sprint(fresh.Loaded())
	})
	t.Logf("the adapter was there %s after the restart began", time.Since(began).Round(time.Millisecond))
	w.awaitReady("sql")
	for _, e := range w.all() {
		if loads := e.Counters().Loads["acme/sql"]; loads != 1 {
			t.Errorf("%s loaded it %d times", e.pod, loads)
		}
	}
}

func TestPodsThatComeAndGoAreFollowed(t *testing.T) {
	t.Parallel()
	w := newWard(t, 1)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")
	graph := client.ObjectKey{Namespace: w.namespace, Name: "chat"}
	harness.Change(t, graph, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(3)) })
	w.staff(3)
	w.await("sql", "is on three", func(m *v1alpha1.DynamoModel) bool {
		return m.Status.ReadyEndpoints == 3 && m.Status.TotalEndpoints == 3
	})
	harness.Change(t, graph, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(0)) })
	w.await("sql", "is nowhere", func(m *v1alpha1.DynamoModel) bool {
		return m.Status.TotalEndpoints == 0 && conditionOf(m).Reason == conditions.NoEndpoints
	})
}

func TestARestartOfTheOperatorLoadsNothingAndSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWard(t, 3)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	before := w.awaitReady("sql")
	w.operator.Stop()
	w.startOperator()
	// It has asked everybody once another model is everywhere.
	w.create(w.adapter("code", "s3://bucket/code"))
	w.awaitReady("code")
	after := w.awaitReady("sql")
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the status was written to: %v, then %v", before.Status, after.Status)
	}
	for _, e := range w.all() {
		if got := e.Counters(); got.Loads["acme/sql"] != 1 || got.Unloads["acme/sql"] != 0 {
			t.Errorf("%s: %+v", e.pod, got)
		}
	}
}

func TestANewSourceGoesFromEndpointToEndpoint(t *testing.T) {
	t.Parallel()
	w := newWard(t, 4)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")

	// A source that nobody can load takes the adapter from one endpoint.
	for _, e := range w.all() {
		e.Faults().Set(mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultError, Message: "no such bucket"})
	}
	w.change("sql", `{"spec":{"source":{"uri":"s3://bucket/wrong"}}}`)
	m := w.awaitMessage("sql", "no such bucket")
	if n := w.having("acme/sql"); n != 3 {
		t.Errorf("%d of 4 endpoints have the adapter, want 3: %v", n, m.Status.Endpoints)
	}
	w.awaitMessage("sql", "waits for its turn")

	for _, e := range w.all() {
		e.Faults().Set()
	}
	w.change("sql", `{"spec":{"source":{"uri":"s3://bucket/right"}}}`)
	w.from("s3://bucket/right", w.awaitReady("sql"))
}

// from expects every endpoint to be recorded with one adapter, from one source.
func (w *ward) from(uri string, m *v1alpha1.DynamoModel) {
	w.Helper()
	for _, e := range m.Status.Endpoints {
		if len(e.Adapters) != 1 || e.Adapters[0].URI != uri {
			w.Errorf("%s is said to have %v, want it from %s", e.PodName, e.Adapters, uri)
		}
	}
}

func TestANewNameIsThereBeforeTheOldOneGoes(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.awaitReady("sql")
	w.change("sql", `{"spec":{"modelName":"größe/a b.c"}}`)
	w.awaitReady("sql")
	for _, e := range w.all() {
		loaded := e.Loaded()
		if _, ok := loaded["größe/a b.c"]; !ok || len(loaded) != 1 {
			t.Errorf("%s has %v", e.pod, loaded)
		}
	}
}

func TestOfTwoModelsWithOneNameTheOlderHasIt(t *testing.T) {
	t.Parallel()
	w := newWard(t, 1)
	w.create(w.adapter("first", "s3://bucket/first"))
	w.awaitReady("first")
	second := w.adapter("second", "s3://bucket/second")
	second.Spec.ModelName = "acme/first"
	w.create(second)
	w.awaitMessage("second", "DynamoModel first has the name acme/first")
	if got := w.all()[0].Counters(); got.Loads["acme/first"] != 1 {
		t.Errorf("they fight: %+v", got)
	}
	w.remove("first")
	m := w.awaitReady("second")
	if has := m.Status.Endpoints[0].Adapters; len(has) != 1 || has[0].URI != "s3://bucket/second" {
		t.Errorf("endpoint has %v", has)
	}
	// Whoever does not have the name takes nothing away when it goes.
	w.create(w.adapter("third", "s3://bucket/third"))
	w.change("third", `{"spec":{"modelName":"acme/first"}}`)
	w.awaitMessage("third", "DynamoModel second has the name")
	w.remove("third")
	w.awaitGone("third", patience)
	if w.having("acme/first") != 1 {
		t.Error("it took the other's adapter along")
	}
}

func TestABaseModelIsReadyWhenItsEndpointsAre(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	model := w.adapter("base", "")
	model.Spec.ModelType, model.Spec.Source = v1alpha1.ModelTypeBase, nil
	w.create(model)
	m := w.awaitReady("base")
	if m.Status.ReadyEndpoints != 2 || m.Status.TotalEndpoints != 2 || len(m.Finalizers) != 0 || conditionOf(m).Reason != conditions.EndpointsDiscovered {
		t.Errorf("status %+v, finalizers %v", m.Status, m.Finalizers)
	}
	other := w.adapter("nobody", "s3://bucket/x")
	other.Spec.BaseModelName = "acme/other"
	w.create(other)
	w.awaitMessage("nobody", "No service of a graph in this namespace has modelRef.name acme/other")
}

func TestAnEngineThatAnswersBadlyIsNamedWithItsAnswer(t *testing.T) {
	t.Parallel()
	w := newWard(t, 1)
	e := w.all()[0]
	for name, tc := range map[string]struct {
		fault mockengine.Fault
		want  string
	}{
		"garbage":  {mockengine.Fault{Kind: mockengine.FaultGarbage}, "is no JSON"},
		"huge":     {mockengine.Fault{Kind: mockengine.FaultHuge}, "is larger than"},
		"redirect": {mockengine.Fault{Kind: mockengine.FaultRedirect}, "a redirect, which is not followed"},
		"status":   {mockengine.Fault{Kind: mockengine.FaultStatus, Status: http.StatusTeapot}, "418"},
		"never":    {mockengine.Fault{Kind: mockengine.FaultHang}, "no answer within 15s"},
	} {
		tc.fault.On, tc.fault.Adapter = mockengine.OnLoad, "acme/"+name
		e.Faults().Add(tc.fault)
		w.create(w.adapter(name, "s3://bucket/x"))
	}
	for name, want := range map[string]string{"garbage": "is no JSON", "huge": "is larger than", "redirect": "is not followed", "status": "418", "never": "no answer within 15s"} {
		w.awaitMessage(name, want)
	}
	// None of them was in the way of another.
	w.create(w.adapter("good", "s3://bucket/x"))
	w.awaitReady("good")
	e.Faults().Set()
	for _, name := range []string{"garbage", "huge", "redirect", "status", "never"} {
		w.awaitReady(name)
	}
}

func TestADeletedModelIsUnloadedAndNeverHeldUpForLong(t *testing.T) {
	t.Parallel()
	w := newWard(t, 2)
	w.create(w.adapter("sql", "s3://bucket/sql"))
	w.create(w.adapter("stuck", "s3://bucket/stuck"))
	w.awaitReady("sql")
	w.awaitReady("stuck")
	w.remove("sql")
	w.awaitGone("sql", patience)
	if n := w.having("acme/sql"); n != 0 {
		t.Errorf("%d endpoints still have it", n)
	}
	w.awaitEvent("LoRAUnloaded", "The adapter was unloaded from 2 endpoints")

	w.all()[0].Faults().Set(mockengine.Fault{On: mockengine.OnUnload, Kind: mockengine.FaultHang})
	began := time.Now()
	w.remove("stuck")
	w.awaitGone("stuck", 45*time.Second)
	if took := time.Since(began); took < 25*time.Second {
		t.Errorf("nobody waited for the endpoint: %s", took)
	}
	w.awaitEvent("LoRAUnloadFailed", "1 endpoint may still have the adapter")
}

func (w *ward) awaitEvent(reason, text string) {
	w.Helper()
	harness.Eventually(w.T, patience, "event "+reason, func() (bool, string) {
		var events eventsv1.EventList
		if err := harness.Client(w.T).List(w.Context(), &events, client.InNamespace(w.namespace)); err != nil {
			w.Fatal(err)
		}
		for _, e := range events.Items {
			if e.Reason == reason && strings.Contains(e.Note, text) {
				return true, ""
			}
		}
		return false, "not among the events"
	})
}
