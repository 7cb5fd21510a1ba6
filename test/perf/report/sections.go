// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// sizes is what the plots show, in numbers.
func (s Stored) sizes(b *strings.Builder) {
	run, ok := s.measured()
	if !ok {
		b.WriteString("No run of several numbers of graphs is stored yet.\n\n")
		return
	}
	fmt.Fprintf(b, "Run of %s. What was measured by turns is the median of its turns, with the least and the most in parentheses.\n\n", label(run))
	cells(b, "Graphs", "Seconds", "Null writer", "Ratio", "Writes per graph", "Operator CPU per graph", "API server CPU per graph", "Most memory")
	cells(b, slices.Repeat([]string{"---"}, 8)...)
	for _, row := range perf.Sizes(run.Rows, perf.ScenarioReady) {
		v := func(name, unit string) string {
			value, ok := row.Values[name]
			if !ok {
				return ""
			}
			text := strings.TrimSpace(number(value) + " " + unit)
			var turns []float64
			for _, turn := range row.Turns {
				turns = append(turns, turn[name])
			}
			if len(turns) > 1 && slices.Min(turns) < slices.Max(turns) {
				text += " (" + between(turns) + ")"
			}
			return text
		}
		cells(b, strconv.Itoa(row.N), v(perf.ValueSeconds, "s"), v(perf.ValueNull, "s"), v(perf.ValueRatio, "x"),
			v(perf.ValueWrites, ""), v(perf.ValueCPU, "ms"), v(perf.ValueServerCPU, "ms"), v(perf.ValuePeak, "MiB"))
	}
	b.WriteString("\n")
}

// late tells what graphs cost whose Deployments take their time.
func (s Stored) late(b *strings.Builder) {
	for _, run := range slices.Backward(s.Runs) {
		late := slices.DeleteFunc(slices.Clone(run.Rows), func(r perf.Row) bool {
			return !strings.HasPrefix(r.Scenario, perf.ScenarioLate) || r.N < perf.PodGraphs
		})
		if len(late) == 0 {
			continue
		}
		fmt.Fprintf(b, "## Reports that come late\n\nHere each Deployment is reported after a while, and not at once (%s).\n"+
			"The first status of a new object waits up to a second for something to tell.\n\n"+
			"| Reported after | Graphs | Writes per graph | Of them status | 50 of 100 graphs Ready within | 99 of 100 within |\n"+
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
		row, ok := perf.Find(run.Rows, perf.ScenarioPods, perf.PodGraphs)
		if !ok || row.Values[perf.ValuePods] < perf.Pods {
			continue
		}
		fmt.Fprintf(b, "## With pods\n\n%s pods of %d graphs were Ready after %s s (%s). The controllers and the scheduler of Kubernetes are real, and kwok\n"+
			"plays the nodes. The operator wrote %s times per graph.%s%s\n\n"+
			"| Step | Requests | Half of them after | The last after |\n|---|---|---|---|\n",
			number(row.Values[perf.ValuePods]), row.N, number(row.Values[perf.ValueSeconds]), label(run), number(row.Values[perf.ValueWrites]),
			reported(row.Values), shares(row.Values))
		for _, step := range perf.StepNames() {
			half, last := row.Values[step.Name+"P50Seconds"], row.Values[step.Name+"LastSeconds"]
			cells(b, step.Title, number(row.Values[step.Name]), number(half)+" s", number(last)+" s")
		}
		b.WriteString(longest(row.Values) + "\n| Process | CPU |\n|---|---|\n")
		used := processes(row.Values)
		for _, process := range slices.Sorted(maps.Keys(used)) {
			cells(b, process, number(used[process])+" s")
		}
		b.WriteString("\n")
		return
	}
}

// longest tells between which steps the last graph waited for longest.
func longest(values map[string]float64) string {
	steps := perf.StepNames()
	before, after, wait := "", "", 0.0
	for i := 1; i < len(steps); i++ {
		first, second := steps[i-1], steps[i]
		if took := values[second.Name+"LastSeconds"] - values[first.Name+"LastSeconds"]; took > wait {
			before, after, wait = first.Title, second.Title, took
		}
	}
	if wait == 0 {
		return ""
	}
	return fmt.Sprintf("\nThe longest wait of the last of them, %s s, is between \"%s\" and \"%s\".\n", number(wait), before, after)
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

// reported tells how often Deployments were reported: each report may be worth a word.
func reported(values map[string]float64) string {
	applied, reports := values["deploymentsApplied"], values["deploymentsReported"]
	if applied == 0 {
		return ""
	}
	return fmt.Sprintf(" Each Deployment was reported %s times.", number(reports/applied))
}

// shares tells which processes used the processors.
func shares(values map[string]float64) string {
	used, all := processes(values), 0.0
	for _, seconds := range used {
		all += seconds
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(" Of all CPU time the API server had %.0f %% and the operator %.0f %%.",
		100*used["kube-apiserver"]/all, 100*used["operator"]/all)
}

func (s Stored) steps(b *strings.Builder) {
	if len(s.Steps) == 0 {
		return
	}
	b.WriteString("## Steps\n\nWhat made the operator faster or smaller, in order. The command shows the figure at either commit.\n" +
		"Figures of profiles are read off what the command writes, with `go tool pprof`. They were read once, on the machine of that day.\n\n")
	cells(b, "Date", "What", "Figure", "Before", "After", "Commits", "Command", "Note")
	cells(b, slices.Repeat([]string{"---"}, 8)...)
	for _, step := range s.Steps {
		commits := step.Commits.After
		if step.Commits.Before != "" {
			commits = step.Commits.Before + ", " + commits
		}
		cells(b, step.Date, step.What, step.Figure, step.Before, step.After, commits, "`"+step.Command+"`", step.Note)
	}
	b.WriteString("\n")
}

// benchmarks shows what benchstat says.
func (s Stored) benchmarks(b *strings.Builder) {
	if s.Benchmarks == "" {
		return
	}
	b.WriteString("## Micro-benchmarks\n\n" +
		"Medians of at least ten runs by benchstat, and how far the runs lie apart. `make bench` runs them again.\n\n" +
		"| Name | What is timed |\n|---|---|\n")
	for _, row := range []struct{ benchmark, title, what string }{
		{"internal/render", "GraphOf..., Component", "objects are made from a spec"},
		{"Prepare", "Prepare", "an object is made the bytes that are sent, and their hash"},
		{"Hash", "Hash", "the hash alone"},
		{"Contained", "Contained", "a live object is searched for all that is wanted"},
		{"converge/apply", "Judge in apply", "the same, when it is known that nothing has changed since"},
		{"internal/admission", "Judge in admission", "all rules are applied to a graph of 25 services"},
		{"Status", "Status", "a status is made from what was observed"},
		{"Unchanged", "Unchanged", "a status is compared with the one that is stored"},
		{"Review", "Review", "one admission"},
		{"test/golden", "Render... in golden", "a graph and its components are rendered as they are for the first time"},
		{"Simulate", "Simulate", "the mock engine serves a thousand requests"},
	} {
		if strings.Contains(s.Benchmarks, row.benchmark) {
			cells(b, row.title, row.what)
		}
	}
	b.WriteString("\n```\n" + strings.TrimSpace(s.Benchmarks) + "\n```\n\n")
}
