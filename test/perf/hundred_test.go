// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// hundred graphs are enough for their controllers to get in each other's way, and few enough for every change.
const hundred = 100

// within is how long their story may take, besides building the operator.
const within = 2 * time.Minute

// Kinds as their controllers are called.
const (
	graphKind     = "DynamoGraphDeployment"
	componentKind = "DynamoComponentDeployment"
)

// TestAHundredGraphs is one story: an operator as users run it, a process with webhooks and leader election, from a hundred
// new graphs to none. All requests are exact, but for status writes about which time decides: boundStatus and toldOnce say which, and
// that there was a reason for each.
func TestAHundredGraphs(t *testing.T) {
	binary, begin := BuildOperator(t), time.Now()
	s := NewStage(t, binary)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *Stage)
	}{
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

// boundStatus looks at the status writes of a change of all graphs, of which time decides.
//
// A component is told once, when it is ready, or twice: not ready before, where its Deployment was changed, or where nobody reported
// on a new one within a second. So is a graph, and between both how far its two components are: that each was processed and is
// ready makes three more messages before the last. Such progress is told a second after the write before it at the earliest, so
// that a machine that is quick has none of it. How many such messages there were between the first and the last is returned.
func boundStatus(t *testing.T, records []localcluster.AuditRecord) (between int) {
	t.Helper()
	objects := map[string][]localcluster.AuditRecord{}
	for _, r := range records {
		if r.User == OperatorUser && r.Subresource == "status" {
			objects[r.Resource+"/"+r.Name] = append(objects[r.Resource+"/"+r.Name], r)
		}
	}
	if len(objects) != 3*hundred {
		t.Errorf("statuses of %d objects were written, want %d", len(objects), 3*hundred)
	}
	for object, writes := range objects {
		most := 2
		if strings.HasPrefix(object, "dynamographdeployments/") {
			most = 5
		}
		if len(writes) > most {
			t.Errorf("%d status writes of %s, want at most %d", len(writes), object, most)
		}
		between += max(0, len(writes)-2)
		for i := 1; i < len(writes)-1; i++ {
			if pause := writes[i].Received.Sub(writes[i-1].Received); pause < time.Second {
				t.Errorf("progress of %s was told %s after the write before, want a second at least", object, pause)
			}
		}
	}
	return between
}

// firstWord is how long the first status of a new object waits for something to tell.
const firstWord = time.Second

// toldOnce looks at the status writes of new objects. Each is told of once, when it is ready. Only where nobody had reported for as long
// as a first word may wait may there be more, and how many there were is returned: a machine that is slow has some, and no other.
func toldOnce(t *testing.T, records []localcluster.AuditRecord) (late int) {
	t.Helper()
	whole, told := map[string]time.Time{}, map[string][]localcluster.AuditRecord{}
	for _, r := range records {
		switch {
		case r.User != OperatorUser:
		case r.Subresource == "status":
			told[r.Resource+"/"+r.Name] = append(told[r.Resource+"/"+r.Name], r)
		case r.Resource == "deployments", r.Resource == "services":
			whole["dynamocomponentdeployments/"+r.Name] = r.Answered // a component is whole with the last of both
		case r.Resource == "dynamocomponentdeployments":
			graph := r.Name[:strings.LastIndex(r.Name, "-")]
			whole["dynamographdeployments/"+graph] = r.Answered
		}
	}
	for object, writes := range told {
		if len(writes) == 1 {
			continue
		}
		late += len(writes) - 1
		if waited := writes[0].Received.Sub(whole[object]); waited < firstWord-100*time.Millisecond {
			t.Errorf("%s was told of %d times, and first %s after everything was made for it: there was nothing to tell", object, len(writes), waited)
		}
	}
	return late
}

func made(t *testing.T, s *Stage) {
	w := s.Fill(hundred, s.Graph)
	boundStatus(t, w.Records)
	late := toldOnce(t, w.Records)
	expect(t, Requests{Creates: children * hundred, Status: 3*hundred + late, Events: hundred}, w.Requests, w.Records)
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
	got.Reads = 0 // of what the cluster serves and of certificates; below is that no object of a user is among them
	expect(t, Requests{}, got, records)
	for _, r := range records {
		if r.User == OperatorUser && strings.HasPrefix(r.Namespace, "perf-") {
			t.Errorf("the new operator asked: %s %s/%s in %s", r.Verb, r.Resource, r.Name, r.Namespace)
		}
	}
	if passes := Passes(t, s.Operator, componentKind); passes < 2*hundred {
		t.Errorf("components were looked at %d times, so that nothing was counted", passes)
	}
}

func changed(t *testing.T, s *Stage) {
	w := s.Change(hundred, 2, Image("registry.example.com/dynamo:2", "Frontend", "Decode"))
	between := boundStatus(t, w.Records)
	got := w.Requests
	got.Status -= between
	// Two components and two Deployments are written; all three objects are told of twice, when they are no longer ready and when they are again.
	expect(t, Requests{Updates: 4 * hundred, Status: 2 * 3 * hundred, Events: hundred}, got, w.Records)
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
