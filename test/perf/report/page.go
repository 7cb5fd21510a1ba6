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
	s.late(&b)
	s.pods(&b)
	b.WriteString("## How it is measured\n\n" + strings.TrimSpace(method) + "\n\n")
	s.steps(&b)
	if s.Benchmarks != "" {
		b.WriteString("## Micro-benchmarks\n\nMedians of several runs, and how far they lie apart, by benchstat; `make bench` repeats them.\n" +
			"In `render` objects are made from specs; in `apply` Prepare is the way from an object to the bytes that are sent and their hash,\n" +
			"Hash the last part of that, Contained whether a live object has all that is wanted, and Judge what is left of that once it is known; Status is made from what was\n" +
			"observed, Unchanged finds that it need not be written, and a Review is one admission.\n\n" +
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
	s.beside(b)
}

// beside tells what some figures are made of, and what they leave out.
func (s Stored) beside(b *strings.Builder) {
	if v, ok := s.values(perf.ScenarioAdmission, perf.ValueOver); ok {
		fmt.Fprintf(b, "\nAdmission took %s ms with webhooks and %s ms without at p99, %s and %s ms in the worst turn, %s and %s ms at p50.\n",
			number(v[perf.ValueP99]), number(v[perf.ValueP99Without]), number(v[perf.ValueWorst]), number(v[perf.ValueWorstWithout]),
			number(v[perf.ValueP50]), number(v[perf.ValueP50Without]))
	}
	if few, many, ok := s.ends(); ok {
		fmt.Fprintf(b, "\nThe null writer took %s times as long for each of %d graphs as for each of %d.\n",
			number(perGraph(many)/perGraph(few)), many.N, few.N)
	}
	if v, ok := s.values(perf.ScenarioIdle, perf.ValueOther); ok {
		fmt.Fprintf(b, "\nAn idle operator renews its Lease %s times and its watches %s times an hour.\n", number(v[perf.ValueLeases]), number(v[perf.ValueWatches]))
	}
}

// ends are the rows with the fewest and the most graphs beside a null writer, of the latest run that has several.
func (s Stored) ends() (few, many perf.Row, ok bool) {
	for _, run := range slices.Backward(s.Runs) {
		rows := slices.DeleteFunc(slices.Clone(perf.Sizes(run.Rows, perf.ScenarioReady)), func(r perf.Row) bool { return r.Values[perf.ValueNull] == 0 })
		if len(rows) > 1 {
			return rows[0], rows[len(rows)-1], true
		}
	}
	return perf.Row{}, perf.Row{}, false
}

// perGraph is how long the null writer took for a graph.
func perGraph(r perf.Row) float64 { return r.Values[perf.ValueNull] / float64(r.N) }

// values are those of the latest run of a scenario that has a value.
func (s Stored) values(scenario, with string) (map[string]float64, bool) {
	for _, run := range slices.Backward(s.Runs) {
		for _, row := range slices.Backward(perf.Sizes(run.Rows, scenario)) {
			if _, ok := row.Values[with]; ok {
				return row.Values, true
			}
		}
	}
	return nil, false
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
	return map[string]plot{
		"time.svg":     {"Time until all graphs are Ready", "seconds", seconds},
		"ratio.svg":    {"Time until all graphs are Ready, as a ratio", "times the null writer of the same run", both(perf.ValueRatio)},
		"requests.svg": {"Requests per graph", "writes, status writes and events", both(perf.ValueWrites)},
		"memory.svg":   {"Most memory of the operator", "MiB", both(perf.ValuePeak)},
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

// late tells what graphs cost whose Deployments take their time.
func (s Stored) late(b *strings.Builder) {
	for _, run := range slices.Backward(s.Runs) {
		late := slices.DeleteFunc(slices.Clone(run.Rows), func(r perf.Row) bool { return !strings.HasPrefix(r.Scenario, perf.ScenarioLate) })
		if len(late) == 0 {
			continue
		}
		fmt.Fprintf(b, "## Reports that come late\n\nDeployments are reported after a while, and not at once (%s). A first status waits for a second for something\n"+
			"to tell; whoever has nothing to tell by then says so, and costs a status write more for each object.\n\n"+
			"| Reported after | Graphs | Writes per graph | Of them status | Half of the graphs Ready after | Nearly all after |\n"+
			"|---|---|---|---|---|---|\n", label(run))
		for _, r := range late {
			cells(b, number(r.Values[perf.ValueDelay])+" ms", strconv.Itoa(r.N), number(r.Values[perf.ValueWrites]), number(r.Values["statusWritesPerGraph"]),
				number(r.Values["graphP50Seconds"])+" s", number(r.Values["graphP99Seconds"])+" s")
		}
		b.WriteString("\n")
		return
	}
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
			"and nodes that kwok plays (%s). What was begun is finished before something new is begun, so the steps of different graphs\n"+
			"overlap, and each ends late because graphs before it were served first. %s The operator wrote %s times per graph,\n"+
			"because Deployments report several times on their way.\n\n"+
			"| Step | Requests | Half of them after | The last after |\n|---|---|---|---|\n",
			number(row.Values[perf.ValuePods]), row.N, number(row.Values[perf.ValueSeconds]), label(run), shares(row.Values), number(row.Values[perf.ValueWrites]))
		for _, step := range perf.StepNames() {
			half, last := row.Values[step+"P50Seconds"], row.Values[step+"LastSeconds"]
			cells(b, step, number(row.Values[step]), number(half)+" s", number(last)+" s")
		}
		b.WriteString("\n| Process | CPU |\n|---|---|\n")
		used := processes(row.Values)
		for _, process := range slices.Sorted(maps.Keys(used)) {
			cells(b, process, number(used[process])+" s")
		}
		b.WriteString("\n")
		return
	}
}

// processes are the seconds of CPU that each used.
func processes(values map[string]float64) map[string]float64 {
	used := map[string]float64{}
	for name, seconds := range values {
		if process, ok := strings.CutPrefix(name, "cpuSeconds "); ok {
			used[process] = seconds
		}
	}
	return used
}

// shares tells where the time goes: processors are what everybody waits for.
func shares(values map[string]float64) string {
	used, all := processes(values), 0.0
	for _, seconds := range used {
		all += seconds
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("Of all CPU time the API server had %.0f %% and the operator %.0f %%.",
		100*used["kube-apiserver"]/all, 100*used["operator"]/all)
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
	b.WriteString("## Runs\n\n" +
		"| Date | Commit | Machine | Load before | Null writer, 1,000 graphs | Aim | Pass | Miss | Trial |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, run := range slices.Backward(s.Runs) {
		counts := map[perf.Verdict]int{}
		for _, f := range run.Figures {
			counts[f.Verdict]++
		}
		commit := fmt.Sprintf("%.7s", run.Commit)
		if run.Changed {
			commit += " with changes"
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
