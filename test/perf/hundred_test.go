// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// hundred graphs are enough for their controllers to get in each other's way, and few enough for every change.
const hundred = 100

// within is how long their story may take, besides building the operator.
const within = 2 * time.Minute

// TestAHundredGraphs is one story: an operator as users run it, a process with webhooks and leader election, from a hundred
// new graphs to none. All requests are exact, but for those status writes about which time decides: ofNew and toldOnce say which those are, and
// how many there may be.
func TestAHundredGraphs(t *testing.T) {
	binary, begin := BuildOperator(t), time.Now()
	s := NewStage(t, binary)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *Stage)
	}{
		{"can be tried without being made", tried},
		{"are made with one request per child", made},
		{"are looked at again, and then left alone, without a request", lookedAtAgain},
		{"cost a new operator no write", takenOver},
		{"are changed with one request per changed child", changed},
		{"go without a request", deleted},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, s) }) {
			return // what follows starts from where this should have ended
		}
	}
	if took := time.Since(begin); took > within {
		t.Errorf("the story took %s, want %s at most, or nobody runs it", took, within)
	}
}

// expect compares requests with what they should be, and shows some of those that were made.
func expect(t *testing.T, want, got Requests, records []localcluster.AuditRecord) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		text := Transcript(records, OperatorUser)
		t.Errorf("requests (-want +got):\n%s\nthe last: %s", diff, text[max(0, len(text)-4000):])
	}
	if refused := RefusedOnly(records, OperatorUser); len(refused) > 0 && want != (Requests{}) {
		t.Errorf("requests were refused:\n%s", Transcript(refused, OperatorUser))
	}
}

// mostWrites is how many writes, status writes and events a new graph may cost on any machine, a goal of docs/performance.md.
const mostWrites = 17

// mostReads is how often a new operator may read: what the cluster serves, who it is, whether webhooks have its certificates, and its Lease.
// Some thirty is usual.
const mostReads = 60

// exceptStatus are requests without the status writes, about some of which time decides: see ofNew and toldOnce.
func exceptStatus(r Requests) Requests {
	r.Status = 0
	return r
}

// tried is what make perf measures admission with, so that it is known to work before.
func tried(t *testing.T, s *Stage) {
	if err := s.Rehearsals(1)(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, s *Stage) {
	w := s.Fill(hundred, s.Graph)
	v := ofNew(tales(w.Records))
	judge(t, v)
	if exact, least := v.exact, 3*hundred/2; exact < least {
		t.Errorf("%d objects were reported in time, want %d at least: the machine was too slow to count on", exact, least)
	}
	expect(t, Requests{Creates: children * hundred, Events: hundred}, exceptStatus(w.Requests), w.Records)
	if got, most := w.Requests.Writes(), mostWrites*hundred; got > most {
		t.Errorf("%d writes for %d new graphs, want %d at most", got, hundred, most)
	}
	lag := SimulatorLag(w.Records, OperatorUser, SimulatorUser)
	if lag.Count != 2*hundred {
		t.Errorf("%d Deployments were rolled out, want %d", lag.Count, 2*hundred)
	}
	t.Logf("%d status writes; Ready after %s, half of them after %.2f s; Deployments rolled out after %.0f ms; operator: %s CPU, %.0f MiB",
		w.Requests.Status, w.Span.Round(time.Millisecond), w.Each.P50, 1000*lag.P50, w.CPU[s.Operator.Name], MiB(w.Operator.Peak))
}

func lookedAtAgain(t *testing.T, s *Stage) {
	before, begin, trail := Passes(t, s.Operator, graphKind), time.Now(), NewTrail(t)
	s.ChangeGraphs(hundred, Touch("hello"))
	records := trail.Settle(OperatorUser, Limit(hundred))
	expect(t, Requests{}, Fold(records, OperatorUser), records)
	if passes := Passes(t, s.Operator, graphKind) - before; passes < hundred {
		t.Errorf("graphs were looked at %d times, so that nothing was counted", passes)
	}
	// The Lease is renewed once a second. A loaded machine may do it less often; nobody does it more often. Who was late
	// reads the Lease before it writes it.
	if n, most := renewals(records), int(time.Since(begin)/time.Second)+1; n > most {
		t.Errorf("the Lease was renewed %d times, want %d at most", n, most)
	}
}

func renewals(records []localcluster.AuditRecord) int {
	n := 0
	for _, r := range records {
		if r.User == OperatorUser && r.Resource == "leases" && r.Verb == "update" {
			n++
		}
	}
	return n
}

func takenOver(t *testing.T, s *Stage) {
	trail := NewTrail(t)
	s.Restart()
	records := trail.Settle(OperatorUser, Limit(hundred))
	got := Fold(records, OperatorUser)
	if got.Reads > mostReads {
		t.Errorf("a new operator read %d times, want %d at most:\n%s", got.Reads, mostReads, Transcript(records, OperatorUser))
	}
	got.Reads = 0 // which they are follows
	expect(t, Requests{}, got, records)
	checkReads(t, records, OperatorUser, ownNamespace, readsOfANewOperator())
	if passes := Passes(t, s.Operator, componentKind); passes < 2*hundred {
		t.Errorf("components were looked at %d times, so that nothing was counted", passes)
	}
}

// changed has Deployments reported only when everything else is done, so that time decides about no component: it is told of as not
// ready, and later as ready.
func changed(t *testing.T, s *Stage) {
	s.StopSimulator()
	trail := NewTrail(t)
	s.ChangeGraphs(hundred, Image("registry.example.com/dynamo:2", "Frontend", "Decode"))
	records := trail.Settle(OperatorUser, Limit(hundred))
	// Two components and two Deployments are written.
	expect(t, Requests{Updates: 4 * hundred}, exceptStatus(Fold(records, OperatorUser)), records)
	toldOnce(t, records, 3) // that it is looked at, and then how far its components are

	trail = NewTrail(t)
	s.StopSimulator = s.Simulate()
	s.Recorder.AwaitAll(hundred, 2, Limit(hundred))
	records = trail.Settle(OperatorUser, Limit(hundred))
	expect(t, Requests{Events: hundred}, exceptStatus(Fold(records, OperatorUser)), records)
	toldOnce(t, records, 2) // how far its components are, and that it is Ready
}

// toldOnce checks that each component was told of exactly once. A graph hears of its two components at once or one after the other, which
// time decides, and is told of at most so often; what is mere progress waits for a second after the write before it.
func toldOnce(t *testing.T, records []localcluster.AuditRecord, mostOfAGraph int) {
	t.Helper()
	told, graphs, v := StatusWritesPerObject(records, OperatorUser), 0, verdicts{}
	for object, n := range told {
		switch {
		case isGraph(object) && n <= mostOfAGraph:
			graphs += n
		case n != 1:
			t.Errorf("%d status writes of %s", n, object)
		}
	}
	for object, w := range tales(records) {
		v.paced(object, w)
	}
	for _, problem := range v.problems {
		t.Error(problem)
	}
	if len(told) != 3*hundred {
		t.Errorf("%d objects were told of, want %d", len(told), 3*hundred)
	}
	t.Logf("%d status writes of %d graphs", graphs, hundred)
}

func deleted(t *testing.T, s *Stage) {
	before, trail := Passes(t, s.Operator, graphKind), NewTrail(t)
	s.DeleteGraphs(hundred)
	records := trail.Settle(OperatorUser, Limit(hundred))
	expect(t, Requests{}, Fold(records, OperatorUser), records)
	if passes := Passes(t, s.Operator, graphKind) - before; passes < hundred {
		t.Errorf("graphs were looked at %d times, so that nothing was counted", passes)
	}
}
