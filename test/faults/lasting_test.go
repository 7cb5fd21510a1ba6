// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// notToldFor is how long nobody has to read about what may pass by itself, and toldAtLast when it is told. In between there is a retry.
	notToldFor, toldAtLast = 30 * time.Second, 40 * time.Second
	// mostEvents is how many events a minute of errors may leave about them: of each graph and component one for each thing that is said.
	mostEvents = 6
)

// TestAnErrorThatDoesNotPassIsToldAfterAWhile has the API server be unavailable for one kind for longer than anybody should wait in the dark.
func TestAnErrorThatDoesNotPassIsToldAfterAWhile(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range []string{"500 internal", "503 unavailable", "504 before commit"} {
		r := &Result{Goal: "L5", Scenario: "create deployments", Fault: fmt.Sprintf("%s for %s", name, toldAtLast)}
		if takesLong() || !b.isWanted(t, *r) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.record(t, r)
			b.outlast(t, apiErrors[name].fault, r)
		})
	}
}

// outlast waits through errors until they are told, and checks that the events about them are few and that all is well afterwards.
func (b *bed) outlast(t *testing.T, f Fault, r *Result) {
	t.Helper()
	ns, wire := b.begin(t)
	f.Concerns = func(c Call) bool { return c.Resource == "deployments" && c.IsWrite() }
	wire.Arm(f)
	create(t, rich(ns))
	harness.Eventually(t, patience, "a request fails", func() (bool, string) { return len(wire.Fired()) > 0, "none has" })
	began := time.Now()
	var told []string
	harness.Eventually(t, toldAtLast+patience, "the errors are told", func() (bool, string) {
		told = toldIn(t, ns)
		return len(told) > 0, fmt.Sprintf("%d requests failed in %s", len(wire.Fired()), time.Since(began))
	})
	if took := time.Since(began); took < notToldFor-slack || took > toldAtLast {
		t.Errorf("it was told after %s, want %s to %s", took, notToldFor, toldAtLast)
	}
	if !slices.ContainsFunc(told, func(message string) bool { return strings.Contains(message, "Deployment chat-") }) {
		t.Errorf("it is not told what fails: %q", told)
	}
	if events := eventsOf(t, ns, "fault on the wire"); len(events) > mostEvents {
		t.Errorf("%d events tell of the errors: %q", len(events), events)
	}
	r.Faults = len(wire.Fired())
	wire.Clear()
	over := time.Now()
	scaled(t, ns, 1)
	r.Seconds = time.Since(over).Seconds()
	if most := recoverIn + unlessAlone(slack); time.Since(over) > most {
		t.Errorf("it took %s after the errors were over, want %s at most", time.Since(over), most)
	}
	b.lastRest(t, ns, wire)
	if told := toldIn(t, ns); len(told) > 0 {
		t.Errorf("it is told after it is over: %q", told)
	}
}

// eventsOf are the notes of events of a namespace with some words in them.
func eventsOf(t *testing.T, ns, words string) []string {
	t.Helper()
	var all eventsv1.EventList
	if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, e := range all.Items {
		if strings.Contains(e.Note, words) {
			notes = append(notes, e.Note)
		}
	}
	return notes
}
