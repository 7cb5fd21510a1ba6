// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// asked are requests of the operator and of somebody else.
func asked() []localcluster.AuditRecord {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record := func(verb, resource, subresource, name string, code int) localcluster.AuditRecord {
		return localcluster.AuditRecord{
			User: OperatorUser, Verb: verb, Resource: resource, Subresource: subresource, Namespace: "ns", Name: name, Code: code, Answered: begin,
		}
	}
	watch := func(resource, selector string) localcluster.AuditRecord {
		r := record("watch", resource, "", "", 200)
		r.URI = "/api/v1/" + resource + "?fieldSelector=type%3D" + selector + "&resourceVersion=7&watch=true"
		return r
	}
	rolledOut := record("update", "deployments", "status", "a", 200)
	rolledOut.User, rolledOut.Answered = SimulatorUser, begin.Add(30*time.Millisecond)
	again := rolledOut
	again.Answered = begin.Add(time.Minute)
	return []localcluster.AuditRecord{
		rolledOut, again, // before what it is about: a record is written when an answer is complete
		record("patch", "deployments", "", "a", 201),
		record("patch", "deployments", "", "b", 200),
		record("create", "services", "", "a", 201),
		record("delete", "services", "", "b", 200),
		record("update", "dynamographdeployments", "status", "g", 200),
		record("update", "dynamographdeployments", "status", "g", 409),
		record("create", "events", "", "g.18e8", 201),
		record("create", "events", "", electionID+".18e8", 201),
		record("update", "leases", "", electionID, 200),
		record("get", "", "", "", 200),
		record("list", "leases", "", "other", 200),
		record("create", "selfsubjectreviews", "", "", 201),
		record("watch", "deployments", "", "", 200),
		watch("secrets", "a"), watch("secrets", "a"), watch("secrets", "b"),
	}
}

func TestRequestsAreSortedIntoClasses(t *testing.T) {
	t.Parallel()
	got := Fold(asked(), OperatorUser)
	if diff := cmp.Diff(Requests{Creates: 2, Updates: 1, Deletes: 1, Status: 2, Events: 1, Reads: 2}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if got.Writes() != 7 {
		t.Errorf("%d writes, want 7", got.Writes())
	}
	if diff := cmp.Diff(Upkeep{Leases: 3, Watches: 4, MostWatches: 2}, FoldUpkeep(asked(), OperatorUser)); diff != "" {
		t.Errorf("upkeep (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int]int{409: 1}, Refused(asked(), OperatorUser)); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

func TestASimulatorsLagIsThatOfTheFirstReport(t *testing.T) {
	t.Parallel()
	want := Distribution{Count: 1, P50: 0.03, P99: 0.03, Max: 0.03, Sum: 0.03}
	if diff := cmp.Diff(want, SimulatorLag(asked(), OperatorUser, SimulatorUser)); diff != "" {
		t.Errorf("lag (-want +got):\n%s", diff)
	}
}

func TestATimelineHasTheRequestsOfEachStep(t *testing.T) {
	t.Parallel()
	got := map[string]int{}
	for _, step := range Timeline(asked(), time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)) {
		got[step.Name] = step.Count
		if step.Name == "deploymentsApplied" && step.Max != 5 {
			t.Errorf("the last Deployment was applied after %v s, want 5", step.Max)
		}
	}
	if len(got) != len(StepNames()) || got["deploymentsApplied"] != 2 || got["graphsTold"] != 2 || got["podsBound"] != 0 {
		t.Errorf("steps: %v", got)
	}
}
