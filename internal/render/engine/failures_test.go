// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAFailedStepEndsTheScript(t *testing.T) {
	t.Parallel()
	dir := stubs(t, nil)
	f := forms("dynamo.trtllm")["direct"]
	for _, r := range []Role{Leader, Worker} {
		for _, o := range []Orchestrator{LeaderWorkerSet, Grove} {
			m := newMachine(t, dir)
			if err := os.Remove(filepath.Join(m.keys, "private.key")); err != nil {
				t.Fatal(err)
			}
			if calls, err := m.run(t, f.wire("trtllm", o, r), injected(o, r)); err == nil || len(calls) > 0 {
				t.Errorf("orchestrator %d, role %d: went on without a key: %v, %v", o, r, calls, err)
			}
		}
	}
}

func TestTheEngineIsNotStartedWithoutRay(t *testing.T) {
	t.Parallel()
	dir := stubs(t, map[string]string{"ray": "exit 7"})
	for name, f := range forms("dynamo.vllm", "-tp", "24") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, err := newMachine(t, dir).run(t, f.wire("vllm", Grove, Leader), injected(Grove, Leader))
			if len(calls) != 1 || calls[0][0] != "ray" {
				t.Errorf("calls %v, want only Ray's", calls)
			}
			if err == nil {
				t.Error("the container ended as if nothing had happened")
			}
		})
	}
}

func TestMpirunWaitsForTheNamesOfItsWorkers(t *testing.T) {
	t.Parallel()
	f := forms("dynamo.trtllm")["direct"]
	for name, tc := range map[string]struct {
		stubs   map[string]string
		getents int
		starts  bool
	}{
		"until they are there": {map[string]string{
			"sleep":  "",
			"getent": `[ "$(grep -la "^getent" "$RECORD"/* | wc -l)" -gt 3 ]`,
		}, 5, true}, // three failures and one success for the first worker, one for the second
		"not for ever": {map[string]string{
			"sleep":  "",
			"getent": "exit 2",
			"date":   `echo $(( $(ls "$RECORD" | wc -l) * 60 ))`, // a minute passes with every call
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, stubs(t, tc.stubs))
			calls, err := m.run(t, f.wire("trtllm", LeaderWorkerSet, Leader), injected(LeaderWorkerSet, Leader))
			getents, started := 0, false
			for _, call := range calls {
				if call[0] == "getent" {
					getents++
				}
				started = started || call[0] == "mpirun"
			}
			if started != tc.starts || (err == nil) != tc.starts {
				t.Errorf("mpirun started: %t, want %t; %v", started, tc.starts, err)
			}
			if tc.starts && getents != tc.getents {
				t.Errorf("%d questions, want %d", getents, tc.getents)
			}
		})
	}
}
