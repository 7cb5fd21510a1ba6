// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/faults"
)

func TestRowsOfAGoalAreReplacedByThoseOfTheSameKindOfRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	older := []faults.Summary{
		{Goal: "L9", Scenario: "200 graphs", Runs: 1},
		{Goal: "L9", Scenario: "renamed since", Runs: 1},
		{Goal: "L9", Scenario: "1000 graphs", Runs: 1, Run: "soak"},
		{Goal: "L10", Scenario: "untouched", Runs: 1},
	}
	newer := []faults.Summary{{Goal: "L9", Scenario: "200 graphs", Runs: 2}}
	if _, err := keep(path, older); err != nil {
		t.Fatal(err)
	}
	got, err := keep(path, newer)
	if err != nil {
		t.Fatal(err)
	}
	want := []faults.Summary{older[2], newer[0], older[3]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASoakThatIsSmallerThanAskedForIsNotStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result faults.Result
		stored bool
	}{
		"faults at random for 44 minutes":     {faults.Result{Goal: "L6", Graphs: 200, Lasting: 44 * time.Minute}, false},
		"faults at random for 45 minutes":     {faults.Result{Goal: "L6", Graphs: 200, Lasting: 45 * time.Minute}, true},
		"a restart in a crowd of 999":         {faults.Result{Goal: "L9", Graphs: 999}, false},
		"a restart in a crowd of 1000":        {faults.Result{Goal: "L9", Graphs: 1000}, true},
		"a crowd of 20 at rest":               {faults.Result{Goal: "L10", Graphs: 20, Lasting: time.Hour}, false},
		"a crowd of 200 deleted":              {faults.Result{Goal: "L21", Fault: "all deleted at once", Graphs: 200}, false},
		"a crowd of 1000 deleted":             {faults.Result{Goal: "L21", Fault: "all deleted at once", Graphs: 1000}, true},
		"a namespace of a crowd of 100":       {faults.Result{Goal: "L21", Fault: "namespace deleted", Graphs: 20}, false},
		"a namespace of a crowd of 1000":      {faults.Result{Goal: "L21", Fault: "namespace deleted", Graphs: 200}, true},
		"a fight over five graphs":            {faults.Result{Goal: "L16", Graphs: 5, Lasting: time.Hour}, false},
		"a fight over twenty graphs":          {faults.Result{Goal: "L16", Graphs: 20, Lasting: 5 * time.Minute}, true},
		"twenty graphs for four minutes":      {faults.Result{Goal: "L16", Graphs: 20, Lasting: 4 * time.Minute}, false},
		"restarts for four minutes":           {faults.Result{Goal: "L14", Lasting: 4 * time.Minute}, false},
		"restarts for five minutes":           {faults.Result{Goal: "L14", Lasting: 5 * time.Minute}, true},
		"noise for four minutes":              {faults.Result{Goal: "L20", Graphs: 200, Lasting: 4 * time.Minute}, false},
		"noise for five minutes":              {faults.Result{Goal: "L20", Graphs: 200, Lasting: 5 * time.Minute}, true},
		"a result that does not say its size": {faults.Result{Goal: "L9"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isStored(t, soak, c.result); got != c.stored {
				t.Errorf("it is stored: %t, want %t", got, c.stored)
			}
			if !isStored(t, "other", c.result) {
				t.Error("what is no soak is not stored")
			}
		})
	}
}

// isStored tells whether the result of a run changes the tables, and the rows that are kept with them.
func isStored(t *testing.T, kind string, r faults.Result) bool {
	t.Helper()
	dir := t.TempDir()
	ledger, stored, document := filepath.Join(dir, "ledger"), filepath.Join(dir, "results.json"), filepath.Join(dir, "page.md")
	r.Faults, r.Passed, r.Scenario = 1, true, "this one"
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{ledger: string(line), document: begin + end} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(source{ledger: ledger, kind: kind}, stored, document, false); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(stored)
	if isShown := strings.Contains(string(page), r.Scenario); isShown != (err == nil) {
		t.Errorf("it is shown: %t, and kept: %v", isShown, err)
	}
	return err == nil
}
