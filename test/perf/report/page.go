// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report makes docs/performance.md and its plots from the results that are stored in test/perf/results.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// method is how things are measured, in words.
//
//go:embed method.md
var method string

// Stored is everything that results are made of.
type Stored struct {
	// Runs are those of this operator, the oldest first, Reference one of the other.
	Runs      []perf.Result
	Reference Reference
	Steps     []Step
	// Benchmarks is what benchstat says about the micro-benchmarks.
	Benchmarks string
}

// Step is something that was made faster or smaller.
type Step struct {
	// Date and What say when and what; Figure is what it was about, Before and After how it was and became.
	Date   string `json:"date"`
	What   string `json:"what"`
	Figure string `json:"figure"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Commits are those that show the one and the other, and Command what shows it at either.
	Commits Commits `json:"commits"`
	Command string  `json:"command"`
	// Note is what a reader has to know to believe the figure.
	Note string `json:"note,omitempty"`
}

// Commits are of a step. That before is empty where a setting makes the difference, and not a commit.
type Commits struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after"`
}

// Reference is what is known of the measurement of the other operator.
type Reference struct {
	// Measured is the month, Version what was measured, Machine where; Differs is what was not as it is here, in sentences, and Newer what
	// its newest version took.
	Measured string     `json:"measured"`
	Version  string     `json:"version"`
	Machine  string     `json:"machine"`
	Differs  []string   `json:"differs"`
	Newer    string     `json:"newer"`
	Rows     []perf.Row `json:"rows"`
}

// Read reads results from a directory.
func Read(directory fs.FS) (Stored, error) {
	runs, err := perf.ReadResults(directory)
	if err != nil {
		return Stored{}, err
	}
	s := Stored{Runs: runs}
	for name, into := range map[string]any{"reference.json": &s.Reference, "steps.json": &s.Steps} {
		text, err := fs.ReadFile(directory, name)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			return Stored{}, fmt.Errorf("read %s: %w", name, err)
		}
	}
	if text, err := fs.ReadFile(directory, "benchstat.txt"); err == nil {
		s.Benchmarks = string(text)
	}
	return s, nil
}

// Files are the page and its plots by their names below docs.
func (s Stored) Files() map[string]string {
	files := map[string]string{"performance.md": s.page()}
	for name, p := range s.plots() {
		files["performance/"+name] = p.svg()
	}
	return files
}

func (s Stored) page() string {
	var b strings.Builder
	b.WriteString("# Performance\n\nGenerated from `test/perf/results` by `make perf` and `make bench`; do not edit.\n\n## Figures\n\n")
	s.figures(&b)
	b.WriteString("\n## Over the number of graphs\n\n")
	for _, name := range []string{"time.svg", "ratio.svg", "requests.svg", "memory.svg"} {
		fmt.Fprintf(&b, "![%s](performance/%s)\n\n", s.plots()[name].title, name)
	}
	s.sizes(&b)
	s.late(&b)
	s.pods(&b)
	b.WriteString("## How it is measured\n\n" + strings.TrimSpace(method) + "\n\n")
	s.steps(&b)
	s.benchmarks(&b)
	s.runs(&b)
	return strings.TrimSpace(b.String()) + "\n"
}

// cells writes a row of a table.
func cells(b *strings.Builder, texts ...string) {
	b.WriteString("| " + strings.Join(texts, " | ") + " |\n")
}

func label(r perf.Result) string {
	return fmt.Sprintf("%s, %s", r.Date.Format("2006-01-02"), revision(r))
}

// revision says what was measured.
func revision(r perf.Result) string {
	if r.Changed {
		return fmt.Sprintf("%.7s with changes", r.Commit)
	}
	return fmt.Sprintf("%.7s", r.Commit)
}

// measured is the latest run with all the numbers of graphs that goals are set for.
func (s Stored) measured() (perf.Result, bool) {
	for _, run := range slices.Backward(s.Runs) {
		if perf.IsWhole(run.Rows) {
			return run, true
		}
	}
	return perf.Result{}, false
}

func (s Stored) plots() map[string]plot {
	ours, _ := s.measured()
	of := func(name, colour string, rows []perf.Row, value string) line {
		l := line{name: name, colour: colour}
		for _, row := range perf.Sizes(rows, perf.ScenarioReady) {
			if v, ok := row.Values[value]; ok {
				l.points = append(l.points, perf.Point{X: float64(row.N), Y: v})
			}
		}
		return l
	}
	const blue, grey, red = "#1f5fbf", "#777777", "#bf3f1f"
	both := func(value string) []line {
		return []line{of("this operator", blue, ours.Rows, value), of("reference", red, s.Reference.Rows, value)}
	}
	seconds := append(both(perf.ValueSeconds), of("null writer", grey, ours.Rows, perf.ValueNull))
	seconds[1].name = "reference, on its own machine"
	return map[string]plot{
		"time.svg":     {"Time until all graphs are Ready", "seconds", seconds},
		"ratio.svg":    {"Time until all graphs are Ready, as a ratio", "times the null writer of the same run", both(perf.ValueRatio)},
		"requests.svg": {"Requests per graph", "writes, status writes and events", both(perf.ValueWrites)},
		"memory.svg":   {"Most memory of the operator", "MiB", both(perf.ValuePeak)},
	}
}

func (s Stored) runs(b *strings.Builder) {
	if len(s.Runs) == 0 {
		return
	}
	b.WriteString("## Runs\n\n" +
		"| Date | Commit | Machine | Load before | Null writer, 1,000 graphs | Aim | Pass | Miss | Trial |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, run := range slices.Backward(s.Runs) {
		counts := map[perf.Verdict]int{}
		for _, f := range run.Figures {
			counts[f.Verdict]++
		}
		commit := revision(run)
		if len(run.Incomplete) > 0 {
			commit += ", incomplete: " + strings.Join(run.Incomplete, ", ")
		}
		null := ""
		if row, ok := perf.Find(run.Rows, perf.ScenarioReady, 1000); ok {
			null = number(row.Values[perf.ValueNull]) + " s"
		}
		cells(b, run.Date.Format("2006-01-02 15:04"), commit,
			fmt.Sprintf("%d cores, %s, %s", run.Machine.Cores, run.Machine.CPU, run.Machine.GoVersion), number(run.Load), null,
			strconv.Itoa(counts[perf.Aimed]), strconv.Itoa(counts[perf.Pass]), strconv.Itoa(counts[perf.Miss]), strconv.Itoa(counts[perf.Trial]))
	}
}
