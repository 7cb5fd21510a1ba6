// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What decides about all runs is looked at without one here: a mask that hides too much passes everything.

func TestAMaskHidesWhatTheServerPicksAndNothingElse(t *testing.T) {
	t.Parallel()
	service := func(ip string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "chat", "namespace": "ns-1", "uid": ip + "-uid", "resourceVersion": "7"},
			"spec":     map[string]any{"clusterIP": ip, "clusterIPs": []any{ip}, "selector": map[string]any{"app": "ns-1-chat"}},
		}}
	}
	one, other, headless := mask(service("192.0.2.1"), "ns-1"), mask(service("192.0.2.2"), "ns-1"), mask(service("None"), "ns-1")
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("two addresses differ:\n%s", diff)
	}
	if cmp.Diff(one, headless) == "" {
		t.Error("a Service without an address is taken for one that has one")
	}
	want := map[string]any{
		"metadata": map[string]any{"name": "chat", "namespace": "NAMESPACE"},
		"spec":     map[string]any{"selector": map[string]any{"app": "NAMESPACE-chat"}},
	}
	if diff := cmp.Diff(want, one); diff != "" {
		t.Errorf("masked (-want +got):\n%s", diff)
	}
}

func TestALedgerKnowsOnlyWhatPassedWithTheSameCommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger")
	passed, failed := Result{Goal: "L1", Scenario: "s", At: "a", Faults: 1, Passed: true}, Result{Goal: "L1", Scenario: "s", At: "b", Faults: 1}
	for commit, r := range map[string]Result{"old": passed, "new": failed} {
		l, err := OpenLedger(path, Source{Commit: commit, Run: FullRun})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	for commit, want := range map[string][]bool{"old": {true, false}, "new": {false, false}} {
		l, err := OpenLedger(path, Source{Commit: commit, Run: FullRun})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, []bool{l.HasPassed(passed), l.HasPassed(failed)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", commit, diff)
		}
	}
	all, err := ReadResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if rows := Summarise(Of(all, Source{"new", FullRun})); len(rows) != 1 || rows[0].Failed != 1 || rows[0].Runs != 1 {
		t.Errorf("of the new commit: %+v", rows)
	}
}

func TestALineThatWasBrokenOffSaysNothing(t *testing.T) {
	t.Parallel()
	path, source := filepath.Join(t.TempDir(), "ledger"), Source{Commit: "c", Run: SoakRun}
	first, second := Result{Goal: "L1", At: "a", Passed: true}, Result{Goal: "L1", At: "b", Passed: true}
	for _, r := range []Result{first, second} {
		l, err := OpenLedger(path, source)
		if err != nil {
			t.Fatal(err)
		}
		if l.HasPassed(first) != (r == second) {
			t.Errorf("before %s: the first has passed: %t", r.At, l.HasPassed(first))
		}
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path, `{"goal":"L1","sce`)
	}
	all, err := ReadResults(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(Of(all, source)) != 2 || len(Of(all, Source{Commit: "c", Run: FullRun})) != 0 {
		t.Errorf("the ledger has %+v", all)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOfACellThatWasTriedTwiceTheLastCounts(t *testing.T) {
	t.Parallel()
	first, last := Result{Goal: "L5", Scenario: "s", Fault: "f", Faults: 2, Seconds: 9}, Result{Goal: "L5", Scenario: "s", Fault: "f", Faults: 3, Seconds: 1, Passed: true}
	want := []Summary{{Goal: "L5", Scenario: "s", Fault: "f", Runs: 1, Faults: 3, Slowest: 1}}
	if diff := cmp.Diff(want, Summarise([]Result{first, last})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatDidNotComeIsCountedByItself(t *testing.T) {
	t.Parallel()
	came, absent := Result{Goal: "L2", Scenario: "s", Fault: "f", At: "a", Faults: 1, Passed: true}, Result{Goal: "L2", Scenario: "s", Fault: "f", At: "b", Passed: true, Absent: true}
	want := []Summary{{Goal: "L2", Scenario: "s", Fault: "f", Runs: 1, Faults: 1, Absent: 1}}
	if diff := cmp.Diff(want, Summarise([]Result{came, absent})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACallToAWorkerIsAWriteUnlessItAsks(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"POST /v1/loras": "POST workers/worker-0/loras", "DELETE /v1/loras/sql": "DELETE workers/worker-0/loras/sql", "GET /v1/loras": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		call := CallToWorker("worker-0", method, &url.URL{Path: path})
		if isWrite := want != ""; call.IsWrite() != isWrite || call.IsWork() != isWrite {
			t.Errorf("%s is a write: %t, and work: %t", request, call.IsWrite(), call.IsWork())
		}
		if want != "" && call.String() != want {
			t.Errorf("%s is called %q, want %q", request, call, want)
		}
	}
}

func TestAFullRunThatInjectedTooLittleFallsShort(t *testing.T) {
	t.Parallel()
	var rows []Summary
	for _, g := range goals {
		rows = append(rows, Summary{Goal: g.number, Runs: g.runs, Faults: g.faults})
	}
	if short := Shortfalls(rows); len(short) > 0 {
		t.Errorf("a full run falls short: %v", short)
	}
	rows[0].Faults--
	if short := Shortfalls(rows); len(short) != 1 || !strings.HasPrefix(short[0], "L1 ") {
		t.Errorf("one crash less: %v", short)
	}
}

func TestACallSaysWhatARequestIsAbout(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]Call{
		"/api/v1/namespaces/ns/services/chat":                             {Method: "PUT", Resource: "services", Name: "chat", Namespace: "ns"},
		"/apis/apps/v1/namespaces/ns/deployments/chat/status":             {Method: "PUT", Group: "apps", Resource: "deployments", Name: "chat", Subresource: "status", Namespace: "ns"},
		"/apis/nvidia.com/v1alpha1/dynamomodels?watch=1":                  {Method: "PUT", Group: "nvidia.com", Resource: "dynamomodels", Watch: true},
		"/api/v1/namespaces/ns":                                           {Method: "PUT", Resource: "namespaces", Name: "ns"},
		"/apis/grove.io/v1alpha1":                                         {Method: "PUT", Group: "grove.io"},
		"/healthz":                                                        {Method: "PUT"},
		"/apis/apps/v1/deployments?watch=true&sendInitialEvents=true&x=y": {Method: "PUT", Group: "apps", Resource: "deployments", Watch: true, Streams: true},
	} {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, CallOf("PUT", parsed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", address, diff)
		}
	}
}

func TestTheCommandThatRepeatsAFaultNamesIt(t *testing.T) {
	t.Parallel()
	got := again(t, Result{Scenario: "create a graph", Fault: "crash", At: "PATCH services/chat-frontend #1"})
	for _, part := range []string{
		"-run '^TestTheCommandThatRepeatsAFaultNamesIt$'", "-faults.scenario='create a graph'", "-faults.kind='crash'", "-faults.at='PATCH services/chat-frontend #1'",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not in %s", part, got)
		}
	}
}
