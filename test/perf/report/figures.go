// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

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

const legend = `Less is better in all of them. Ratios are to the null writer of the same turn or run.
Verdicts: "aim" is as good as we aim for, "pass" is as good as it must be, "miss" is worse than it must be.
Trials, which are measured at other sizes or in fewer turns, are not shown.
"Turns" is the number of turns whose median is shown, with the least and the most of them.
Nothing is there where there was one measurement, or where turns were not kept.
"Earlier runs" is the least and the most of up to five stored runs before, on whatever machine and commit they were made.
Goals with a star are our own. They are there so that the figure cannot get worse unseen.

`

func (s Stored) figures(b *strings.Builder) {
	b.WriteString(legend)
	cells(b, "Figure", "Unit", "Now", "Turns", "Must", "Aim", "Reference", "Verdict", "Earlier runs", "Run")
	cells(b, slices.Repeat([]string{"---"}, 10)...)
	for _, goal := range perf.Goals() {
		now, turns, verdict, earlier, where := "", "", "not measured as wanted yet", "", ""
		if f, run, ok := s.latest(goal.Name); ok {
			now, turns, verdict, earlier, where = number(f.Value), inTurns(f.Turns), string(f.Verdict), s.earlier(goal.Name, run), label(run)
		}
		name := goal.Name
		if goal.Own {
			name += " *"
		}
		cells(b, name, goal.Unit, now, turns, number(goal.Must), number(goal.Aim), goal.Reference, verdict, earlier, where)
	}
	s.aboutReference(b)
	s.beside(b)
}

// inTurns is how many turns there were, and how far they lie apart; empty for none.
func inTurns(turns []float64) string {
	if len(turns) == 0 {
		return ""
	}
	return fmt.Sprintf("%d: %s", len(turns), between(turns))
}

// between is the least and the most of some values, once where they look the same.
func between(all []float64) string {
	least, most := number(slices.Min(all)), number(slices.Max(all))
	if least == most {
		return least
	}
	return least + " to " + most
}

// mostEarlier is how many earlier runs are looked at.
const mostEarlier = 5

// earlier is how far the figure lies apart in the stored runs before one.
func (s Stored) earlier(name string, than perf.Result) string {
	var all []float64
	for _, run := range slices.Backward(s.Runs) {
		for _, f := range run.Figures {
			if f.Name == name && f.Verdict != perf.Trial && run.Date.Before(than.Date) && len(all) < mostEarlier {
				all = append(all, f.Value)
			}
		}
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return number(all[0]) + " (one run)"
	default:
		return fmt.Sprintf("%s (%d runs)", between(all), len(all))
	}
}

// aboutReference tells where the figures of the reference are from.
func (s Stored) aboutReference(b *strings.Builder) {
	r := s.Reference
	if r.Measured == "" {
		return
	}
	fmt.Fprintf(b, "\nThe reference was measured once, in %s: %s, on %s. %s %s\n", r.Measured, r.Version, r.Machine, strings.Join(r.Differs, " "), r.Newer)
}

// beside tells what some figures are made of, and what they leave out.
func (s Stored) beside(b *strings.Builder) {
	if v, ok := s.values(perf.GoalAdmission, perf.ScenarioAdmission); ok {
		fmt.Fprintf(b, "\nAdmission took %s ms with webhooks and %s ms without at p99, %s and %s ms in the worst turn, %s and %s ms at p50.",
			number(v[perf.ValueP99]), number(v[perf.ValueP99Without]), number(v[perf.ValueWorst]), number(v[perf.ValueWorstWithout]),
			number(v[perf.ValueP50]), number(v[perf.ValueP50Without]))
		if least, ok := v[perf.ValueLeastOver]; ok {
			fmt.Fprintf(b, " From turn to turn the difference at p99 was %s to %s ms.", number(least), number(v[perf.ValueMostOver]))
		}
		b.WriteString("\n")
	}
	if few, many, ok := s.ends(); ok {
		fmt.Fprintf(b, "\nThe null writer took %s times as long for each of %d graphs as for each of %d.\n",
			number(perGraph(many)/perGraph(few)), many.N, few.N)
	}
	if v, ok := s.values(perf.GoalIdle, perf.ScenarioIdle); ok {
		fmt.Fprintf(b, "\nAn idle operator renews its Lease %s times and its watches %s times an hour.\n", number(v[perf.ValueLeases]), number(v[perf.ValueWatches]))
	}
}

// ends are the rows with the fewest and the most graphs beside a null writer, of the run that the plots show.
func (s Stored) ends() (few, many perf.Row, ok bool) {
	run, _ := s.measured()
	rows := slices.DeleteFunc(slices.Clone(perf.Sizes(run.Rows, perf.ScenarioReady)), func(r perf.Row) bool { return r.Values[perf.ValueNull] == 0 })
	if len(rows) < 2 {
		return perf.Row{}, perf.Row{}, false
	}
	return rows[0], rows[len(rows)-1], true
}

// perGraph is how long the null writer took for a graph.
func perGraph(r perf.Row) float64 { return r.Values[perf.ValueNull] / float64(r.N) }

// values are those of the scenario that a goal is measured in, of the run whose figure is shown.
func (s Stored) values(goal, scenario string) (map[string]float64, bool) {
	_, run, ok := s.latest(goal)
	rows := perf.Sizes(run.Rows, scenario)
	if !ok || len(rows) == 0 {
		return nil, false
	}
	return rows[len(rows)-1].Values, true
}
