// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report makes docs/performance.md and its plots from the results that are stored in test/perf/results.
package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
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
	Reference perf.Result
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
	s.pods(&b)
	b.WriteString("## How it is measured\n\n" + strings.TrimSpace(method) + "\n\n")
	s.steps(&b)
	if s.Benchmarks != "" {
		b.WriteString("## Micro-benchmarks\n\nMedians of several runs, and how far they lie apart, by benchstat; `make bench` repeats them.\n\n" +
			"```\n" + strings.TrimSpace(s.Benchmarks) + "\n```\n\n")
	}
	s.runs(&b)
	return strings.TrimSpace(b.String()) + "\n"
}

// latest is the figure of that name of the latest run that measured it as its goal wants it.
func (s Stored) latest(name string) (perf.Figure, perf.Result, bool) {
	for _, run := range slices.Backward(s.Runs) {
		for _, f := range run.Figures {
			if f.Name == name && f.Verdict != perf.Trial {
				return f, run, true
			}
		}
	}
	return perf.Figure{}, perf.Result{}, false
}

func (s Stored) figures(b *strings.Builder) {
	b.WriteString("Less is better in all of them. Ratios are to the null writer of the same run.\n\n" +
		"| Figure | Unit | Now | Must | Aim | Reference | Verdict | Run |\n|---|---|---|---|---|---|---|---|\n")
	for _, goal := range perf.Goals() {
		now, verdict, where := "", "not measured yet", ""
		if f, run, ok := s.latest(goal.Name); ok {
			now, verdict, where = number(f.Value), string(f.Verdict), label(run)
		}
		cells(b, goal.Name, goal.Unit, now, number(goal.Must), number(goal.Aim), goal.Reference, verdict, where)
	}
}

// cells writes a row of a table.
func cells(b *strings.Builder, texts ...string) {
	b.WriteString("| " + strings.Join(texts, " | ") + " |\n")
}

func label(r perf.Result) string {
	return fmt.Sprintf("%s, %.7s", r.Date.Format("2006-01-02"), r.Commit)
}

// measured is the latest run with graphs of several numbers.
func (s Stored) measured() (perf.Result, bool) {
	for _, run := range slices.Backward(s.Runs) {
		if len(perf.Sizes(run.Rows, perf.ScenarioReady)) > 1 {
			return run, true
		}
	}
	return perf.Result{}, false
}

func (s Stored) plots() map[string]plot {
	ours, _ := s.measured()
	of := func(name, colour string, r perf.Result, value string) line {
		l := line{name: name, colour: colour}
		for _, row := range perf.Sizes(r.Rows, perf.ScenarioReady) {
			if v, ok := row.Values[value]; ok {
				l.points = append(l.points, perf.Point{X: float64(row.N), Y: v})
			}
		}
		return l
	}
	const blue, grey, red = "#1f5fbf", "#777777", "#bf3f1f"
	both := func(value string) []line {
		return []line{of("this operator", blue, ours, value), of("reference", red, s.Reference, value)}
	}
	seconds := []line{of("this operator", blue, ours, perf.ValueSeconds), of("null writer", grey, ours, perf.ValueNull)}
	memory := append(both(perf.ValuePeak), of("this operator at rest", grey, ours, perf.ValueResident))
	return map[string]plot{
		"time.svg":     {"Time until all graphs are Ready", "seconds", seconds},
		"ratio.svg":    {"Time until all graphs are Ready, as a ratio", "times the null writer of the same run", both(perf.ValueRatio)},
		"requests.svg": {"Requests per graph", "writes, status writes and events", both(perf.ValueWrites)},
		"memory.svg":   {"Most memory of the operator", "MiB", memory},
	}
}

// sizes is what the plots show, in numbers.
func (s Stored) sizes(b *strings.Builder) {
	run, ok := s.measured()
	if !ok {
		b.WriteString("No run of several numbers of graphs is stored yet.\n\n")
		return
	}
	fmt.Fprintf(b, "Run of %s.\n\n| Graphs | Seconds | Null writer | Ratio | Writes per graph | Operator CPU per graph | "+
		"API server CPU per graph | Most memory |\n|---|---|---|---|---|---|---|---|\n", label(run))
	for _, row := range perf.Sizes(run.Rows, perf.ScenarioReady) {
		v := func(name, unit string) string {
			value, ok := row.Values[name]
			if !ok {
				return ""
			}
			return strings.TrimSpace(number(value) + " " + unit)
		}
		cells(b, strconv.Itoa(row.N), v(perf.ValueSeconds, "s"), v(perf.ValueNull, "s"), v(perf.ValueRatio, "x"),
			v(perf.ValueWrites, ""), v(perf.ValueCPU, "ms"), v(perf.ValueServerCPU, "ms"), v(perf.ValuePeak, "MiB"))
	}
	b.WriteString("\n")
}

// pods tells where the time goes when there are pods.
func (s Stored) pods(b *strings.Builder) {
	for _, run := range slices.Backward(s.Runs) {
		of := perf.Sizes(run.Rows, perf.ScenarioPods)
		if len(of) == 0 {
			continue
		}
		row := of[len(of)-1]
		fmt.Fprintf(b, "## With pods\n\n%s pods of %d graphs were Ready after %s s, with the controllers and the scheduler of Kubernetes\n"+
			"and nodes that kwok plays (%s). A step takes its time where its last request comes long after that of the step before.\n\n"+
			"| Step | Requests | Half of them after | The last after |\n|---|---|---|---|\n",
			number(row.Values["pods"]), row.N, number(row.Values[perf.ValueSeconds]), label(run))
		for _, step := range perf.StepNames() {
			half, last := row.Values[step+"P50Seconds"], row.Values[step+"LastSeconds"]
			cells(b, step, number(row.Values[step]), number(half)+" s", number(last)+" s")
		}
		b.WriteString("\n| Process | CPU |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(row.Values)) {
			if process, ok := strings.CutPrefix(name, "cpuSeconds "); ok {
				cells(b, process, number(row.Values[name])+" s")
			}
		}
		b.WriteString("\n")
		return
	}
}

func (s Stored) steps(b *strings.Builder) {
	if len(s.Steps) == 0 {
		return
	}
	b.WriteString("## Steps\n\n| Date | What | Figure | Before | After |\n|---|---|---|---|---|\n")
	for _, step := range s.Steps {
		cells(b, step.Date, step.What, step.Figure, step.Before, step.After)
	}
	b.WriteString("\n")
}

func (s Stored) runs(b *strings.Builder) {
	if len(s.Runs) == 0 {
		return
	}
	b.WriteString("## Runs\n\n| Date | Commit | Machine | Load before | Aim | Pass | Miss | Trial |\n|---|---|---|---|---|---|---|---|\n")
	for _, run := range slices.Backward(s.Runs) {
		counts := map[perf.Verdict]int{}
		for _, f := range run.Figures {
			counts[f.Verdict]++
		}
		commit := fmt.Sprintf("%.7s", run.Commit)
		if run.Changed {
			commit += " with changes"
		}
		cells(b, run.Date.Format("2006-01-02 15:04"), commit,
			fmt.Sprintf("%d cores, %s, %s", run.Machine.Cores, run.Machine.CPU, run.Machine.GoVersion), number(run.Load),
			strconv.Itoa(counts[perf.Aimed]), strconv.Itoa(counts[perf.Pass]), strconv.Itoa(counts[perf.Miss]), strconv.Itoa(counts[perf.Trial]))
	}
}
