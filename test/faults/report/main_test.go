// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/faults"
)

func TestRowsOfAGoalAreReplacedByThoseOfTheSameKindOfRun(t *testing.T) {
	t.Parallel()
	older := []faults.Summary{
		{Goal: "L9", Scenario: "200 graphs", Runs: 1, Run: faults.FullRun},
		{Goal: "L9", Scenario: "renamed since", Runs: 1, Run: faults.FullRun},
		{Goal: "L9", Scenario: "1000 graphs", Runs: 1, Run: faults.SoakRun},
		{Goal: "L10", Scenario: "untouched", Runs: 1, Run: faults.FullRun},
	}
	newer := faults.Summary{Goal: "L9", Scenario: "200 graphs", Runs: 2, Run: faults.FullRun}
	book := faults.Book{Runs: map[string]faults.Run{faults.FullRun: {Commit: "old"}}, Rows: slices.Clone(older)}
	book.Enter(faults.FullRun, faults.Run{Commit: "new"}, []faults.Summary{newer})
	want := faults.Book{
		Runs: map[string]faults.Run{faults.FullRun: {Commit: "new", Apart: map[string]string{"L10": "old"}}},
		Rows: []faults.Summary{older[2], newer, older[3]},
	}
	if diff := cmp.Diff(want, book); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	book.Enter(faults.FullRun, faults.Run{Commit: "newest"}, []faults.Summary{newer})
	if diff := cmp.Diff(map[string]string{"L10": "old"}, book.Runs[faults.FullRun].Apart); diff != "" {
		t.Errorf("a goal that was kept twice is of another commit (-want +got):\n%s", diff)
	}
}

func TestTheDocumentShowsWhatIsKept(t *testing.T) {
	t.Parallel()
	const docs = "../../../docs/reliability"
	book, err := faults.ReadBook(docs + ".json")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(docs + ".md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(string(content), book)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("docs/reliability.md is not what is kept; run go run ./test/faults/report (-want +got):\n%s", diff)
	}
	for kind, run := range book.Runs {
		if run.Commit == "" || run.Cores == 0 {
			t.Errorf("of the last %s run it is not known what and where it was: %+v", kind, run)
		}
	}
}

func TestACountOfNothingIsAMistake(t *testing.T) {
	t.Parallel()
	book := faults.Book{Rows: []faults.Summary{
		{Run: faults.FullRun, Goal: "L5", Scenario: "a", Fault: "f", Runs: 2, Faults: 30},
		{Run: faults.FullRun, Goal: "L5", Scenario: "b", Fault: "f", Runs: 1, Faults: 3, Failed: 1},
		{Run: faults.SoakRun, Goal: "L5", Scenario: "b", Fault: "f", Runs: 9, Faults: 9},
	}}
	for mark, want := range map[string]string{
		"full / L5 / a / f": "2 runs, 30 faults, none failed", "full / L5 / * / f": "3 runs, 33 faults, 1 failed", "full / L5 / c / f": "",
	} {
		got, err := book.Count("<!-- count " + mark + " -->what it was<!-- -->")
		if isMistake := want == ""; isMistake != (err != nil) || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", mark, got, err)
		}
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
			if got := isStored(t, faults.SoakRun, c.result); got != c.stored {
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
	r.Faults, r.Passed, r.Scenario, r.Run = 1, true, "this one", kind
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{ledger: string(line) + "\n", document: begin + end} {
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
