// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Row is what one scenario measured. The names of its values carry their unit.
type Row struct {
	Scenario string             `json:"scenario"`
	N        int                `json:"n"`
	Values   map[string]float64 `json:"values"`
	// Turns are the values of every turn, in order, where the scenario was measured by turns. Values has the median of each.
	Turns []map[string]float64 `json:"turns,omitempty"`
}

// ByTurns is a row of what was measured by turns: every value is the median of its own, so that the ratio is the median of ratios
// and not that of two medians.
func ByTurns(scenario string, n int, turns []map[string]float64) Row {
	each := map[string][]float64{}
	for _, values := range turns {
		for name, v := range values {
			each[name] = append(each[name], v)
		}
	}
	row := Row{Scenario: scenario, N: n, Values: map[string]float64{}, Turns: turns}
	for name, all := range each {
		row.Values[name] = Median(all)
	}
	return row
}

// inTurns are the values of a name of all turns, none if it was not measured by turns.
func (r Row) inTurns(value string) []float64 {
	var all []float64
	for _, turn := range r.Turns {
		if v, ok := turn[value]; ok {
			all = append(all, v)
		}
	}
	return all
}

// inEnoughTurns tells whether goals may be judged by it. What is measured once, and what was before there were turns, has none.
func (r Row) inEnoughTurns() bool { return len(r.Turns) == 0 || len(r.Turns) >= WantedTurns }

// Check finds what is no number. JSON has no word for it, and a whole run would be lost for one value.
func (r Row) Check() error {
	var wrong []error
	for _, values := range append([]map[string]float64{r.Values}, r.Turns...) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if v := values[name]; math.IsNaN(v) || math.IsInf(v, 0) {
				wrong = append(wrong, fmt.Errorf("%s, N = %d: %s is %v", r.Scenario, r.N, name, v))
			}
		}
	}
	return errors.Join(wrong...)
}

// String lists what was measured, for people.
func (r Row) String() string {
	lines := []string{fmt.Sprintf("%s, N = %d", r.Scenario, r.N)}
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		lines = append(lines, fmt.Sprintf("%10.4g %s", r.Values[name], name))
	}
	return strings.Join(lines, "\n")
}

// Result is one run: when, where, of what, and what it showed.
type Result struct {
	Date   time.Time `json:"date"`
	Commit string    `json:"commit"`
	// Changed tells that files differed from the commit.
	Changed bool    `json:"changed,omitempty"`
	Machine Machine `json:"machine"`
	// Load is the load average before the run. Much more than nothing means that others were at work.
	Load float64 `json:"load"`
	// Incomplete names scenarios that failed, of which there are no rows or not all turns.
	Incomplete []string `json:"incomplete,omitempty"`
	Rows       []Row    `json:"rows"`
	Figures    []Figure `json:"figures"`
}

// NewResult begins a run.
func NewResult(ctx context.Context, now time.Time) (Result, error) {
	commit, changed, err := Commit(ctx)
	r := Result{Date: now.UTC().Truncate(time.Second), Commit: commit, Changed: changed, Machine: ThisMachine()}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &r.Load) // it stays 0 where the kernel does not say
	}
	return r, err
}

// Finish judges what was measured.
func (r *Result) Finish() { r.Figures = Judge(r.Rows) }

// Misses are the figures that are worse than they must be.
func (r *Result) Misses() []string {
	var missed []string
	for _, f := range r.Figures {
		if f.Verdict == Miss {
			missed = append(missed, fmt.Sprintf("%s: %.4g %s, must be at most %.4g", f.Name, f.Value, f.Unit, f.Must))
		}
	}
	return missed
}

// Write stores the run in a directory, under its date and commit.
func (r *Result) Write(directory string) (string, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	path := filepath.Join(directory, fmt.Sprintf("run-%s-%.7s.json", r.Date.Format("20060102T150405Z"), r.Commit))
	if err := errors.Join(os.MkdirAll(directory, 0o755), os.WriteFile(path, append(text, '\n'), 0o644)); err != nil {
		return "", fmt.Errorf("store the result: %w", err)
	}
	return path, nil
}

// ReadResults returns the runs in a directory, the oldest first.
func ReadResults(directory fs.FS) ([]Result, error) {
	files, err := fs.Glob(directory, "run-*.json")
	if err != nil {
		return nil, fmt.Errorf("look for results: %w", err)
	}
	var all []Result
	for _, name := range files {
		text, err := fs.ReadFile(directory, name)
		if err != nil {
			return nil, fmt.Errorf("read result %s: %w", name, err)
		}
		var r Result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("read result %s: %w", name, err)
		}
		r.Finish() // goals may have come since
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b Result) int { return cmp.Or(a.Date.Compare(b.Date), cmp.Compare(a.Commit, b.Commit)) })
	return all, nil
}

// Find returns the row of a scenario at a size.
func Find(rows []Row, scenario string, n int) (Row, bool) {
	for _, r := range rows {
		if r.Scenario == scenario && r.N == n {
			return r, true
		}
	}
	return Row{}, false
}

// Sizes are the rows of a scenario, from the smallest to the largest.
func Sizes(rows []Row, scenario string) []Row {
	var of []Row
	for _, r := range rows {
		if r.Scenario == scenario {
			of = append(of, r)
		}
	}
	slices.SortStableFunc(of, func(a, b Row) int { return cmp.Compare(a.N, b.N) })
	return of
}
