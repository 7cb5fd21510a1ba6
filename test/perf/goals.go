// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import "math"

// Scenarios, as rows of a result are called.
const (
	ScenarioReady     = "ready"
	ScenarioRestart   = "restart"
	ScenarioIdle      = "idle"
	ScenarioEdit      = "edit during resync"
	ScenarioEvent     = "event to status"
	ScenarioAdmission = "admission"
	ScenarioUpdate    = "update storm"
	ScenarioDelete    = "delete storm"
	ScenarioForeign   = "foreign objects"
	ScenarioPods      = "pods"
	ScenarioLate      = "reported late"
)

// Values that goals are about.
const (
	ValueRatio     = "ratio"
	ValuePerGraph  = "millisecondsPerGraph"
	ValueWrites    = "writesPerGraph"
	ValueCPU       = "operatorCPUMillisecondsPerGraph"
	ValuePeak      = "peakMiB"
	ValueResident  = "residentMiB"
	ValueAllWrites = "writes"
	ValueP50       = "p50Milliseconds"
	ValueP99       = "p99Milliseconds"
	ValueOver      = "overP99Milliseconds"
	ValueSamples   = "samples"
	ValueLeases    = "leasesPerHour"
	ValueWatches   = "watchesPerHour"
	ValueEachWatch = "mostWatchesPerHourOfAKind"
	ValueRate      = "perSecond"
	ValueOther     = "otherRequestsPerHour"
	ValueWindow    = "windowSeconds"
	ValueChange    = "changePercent"
	ValueForeign   = "foreignPods"
	ValueSecrets   = "foreignSecrets"
	ValueSeconds   = "seconds"
	ValueNull      = "nullWriterSeconds"
	ValueServerCPU = "apiServerCPUMillisecondsPerGraph"
	ValuePods      = "pods"
	ValueDelay     = "delayMilliseconds"
	ValueInDoubt   = "inDoubt"

	// Of admission, which is a difference.
	ValueP50Without   = "p50WithoutMilliseconds"
	ValueP99Without   = "p99WithoutMilliseconds"
	ValueWorst        = "worstP99Milliseconds"
	ValueWorstWithout = "worstP99WithoutMilliseconds"
	ValueMedianOver   = "medianTurnOverP99Milliseconds"
	ValueLeastOver    = "leastTurnOverP99Milliseconds"
	ValueMostOver     = "mostTurnOverP99Milliseconds"
)

// Names of figures that the page has more to say about.
const (
	GoalAdmission = "admission over no webhook at 200/s, p99"
	GoalIdle      = "idle: requests besides leases and watches"
)

// The sizes at which goals are set.
const (
	fewGraphs  = 200
	usual      = 1000
	manyGraphs = 2000
	// PodGraphs is how many graphs have pods.
	PodGraphs = 100
	// Pods is how many pods they have together.
	Pods = 1000
	// rehearsals is how many creations count for admission at least.
	rehearsals = 9000
)

// WantedTurns is in how many turns goals want measured what is measured by turns.
const WantedTurns = 5

// Verdict is what is to be said of a figure.
type Verdict string

// Verdicts. A trial was measured at other sizes or in fewer turns than the goal is set for, and says nothing about it.
const (
	Aimed Verdict = "aim"
	Pass  Verdict = "pass"
	Miss  Verdict = "miss"
	Trial Verdict = "trial"
)

// Figure is a measurement beside what it must and should be. Less is better in all of them.
type Figure struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Value     float64 `json:"value"`
	Must      float64 `json:"must"`
	Aim       float64 `json:"aim"`
	Reference string  `json:"reference,omitempty"`
	Verdict   Verdict `json:"verdict"`
	// Turns are the values of all turns, of which Value is the median; none where there was one measurement.
	Turns []float64 `json:"turns,omitempty"`
	// Own tells that nobody asked for this goal. It is there so that the figure cannot get worse unseen.
	Own bool `json:"own,omitempty"`
}

// goal is how a figure is found among rows.
type goal struct {
	name, unit string
	must, aim  float64
	reference  string
	measure    measure
	own        bool
}

// measure finds a value among rows.
type measure func(rows []Row) measurement

// measurement is a value, with those of all turns if there were any. There tells whether rows have it, asWanted whether it was
// measured as the goal wants it.
type measurement struct {
	value           float64
	turns           []float64
	there, asWanted bool
}

// goals are all figures. What the reference needs was measured once, see docs/performance.md.
func goals() []goal {
	return []goal{
		{name: "1,000 graphs Ready", unit: "x null writer", must: 2.0, aim: 1.3, reference: "12.7 at 200, 18.5 at 500",
			measure: at(ScenarioReady, ValueRatio, usual)},
		{name: "growth: time per graph at 2,000 over 200", unit: "x", must: 1.3, aim: 1.1, reference: "1.33 at 500 over 200",
			measure: growth(ValuePerGraph)},
		{name: "growth of the ratio to the null writer, 2,000 over 200", unit: "x", must: 1.3, aim: 1.1, reference: "1.46 at 500 over 200",
			measure: growth(ValueRatio), own: true},
		{name: "writes, status writes and events per graph", unit: "requests", must: 17, aim: 15, reference: "71",
			measure: at(ScenarioReady, ValueWrites, usual)},
		{name: "writes per graph with pods, real controllers", unit: "requests", must: 25, aim: 17,
			measure: with(ScenarioPods, ValuePods, Pods, at(ScenarioPods, ValueWrites, PodGraphs)), own: true},
		{name: "writes after a restart", unit: "requests", must: 0, aim: 0, reference: "18 per graph at 200",
			measure: at(ScenarioRestart, ValueAllWrites, usual)},
		{name: "operator CPU per graph", unit: "ms", must: 20, aim: 8, reference: "95", measure: at(ScenarioReady, ValueCPU, usual)},
		{name: "memory per 1,000 more graphs", unit: "MiB", must: 60, aim: 30, reference: "170", measure: memoryPerThousand},
		// Runs that do not say how many edits were sent in doubt left out the last of a resync, which wait the longest.
		{name: "user edit served while 1,000 others resync, p99", unit: "ms", must: 1000, aim: 100,
			measure: with(ScenarioEdit, ValueInDoubt, 0, with(ScenarioEdit, ValueSamples, 200, at(ScenarioEdit, ValueP99, usual)))},
		{name: "event to status, p99", unit: "ms", must: 100, aim: 30,
			measure: with(ScenarioEvent, ValueSamples, 200, at(ScenarioEvent, ValueP99, usual))},
		// Runs that say nothing of the median turn took the p99 of each turn apart, and had a sender with too few connections.
		{name: GoalAdmission, unit: "ms", must: 10, aim: 3,
			measure: with(ScenarioAdmission, ValueMedianOver, math.Inf(-1), with(ScenarioAdmission, ValueSamples, rehearsals,
				with(ScenarioAdmission, ValueRate, 200, anySize(ScenarioAdmission, ValueOver))))},
		{name: GoalIdle, unit: "per hour", must: 0, aim: 0,
			measure: with(ScenarioIdle, ValueWindow, 600, at(ScenarioIdle, ValueOther, usual))},
		// Once a second, so that another operator knows soon that this one has gone.
		{name: "idle: renewals of the Lease", unit: "per hour", must: 3600, aim: 3600,
			measure: with(ScenarioIdle, ValueWindow, 600, at(ScenarioIdle, ValueLeases, usual)), own: true},
		// The server ends each after five to ten minutes. The one that is renewed most counts.
		{name: "idle: renewals of a watch", unit: "per hour and watch", must: 12, aim: 12,
			measure: with(ScenarioIdle, ValueWindow, 600, at(ScenarioIdle, ValueEachWatch, usual)), own: true},
		{name: "memory with 10,000 foreign pods and 300 MB of Secrets", unit: "% more", must: 5, aim: 5,
			measure: with(ScenarioForeign, ValueSecrets, 300, with(ScenarioForeign, ValueForeign, 10_000, anySize(ScenarioForeign, ValueChange)))},
		// An update changes two components and two Deployments; the graph and its components are told twice each.
		{name: "update: writes, status writes and events per graph", unit: "requests", must: 1.35 * 10, aim: 1.2 * 10,
			measure: at(ScenarioUpdate, ValueWrites, usual), own: true},
		{name: "delete: writes of the operator", unit: "requests", must: 0, aim: 0, measure: at(ScenarioDelete, ValueAllWrites, usual), own: true},
	}
}

// Goals are all figures, without values.
func Goals() []Figure {
	var all []Figure
	for _, g := range goals() {
		all = append(all, g.figure())
	}
	return all
}

func (g goal) figure() Figure {
	return Figure{Name: g.name, Unit: g.unit, Must: g.must, Aim: g.aim, Reference: g.reference, Verdict: Trial, Own: g.own}
}

// Judge finds every figure that rows allow.
func Judge(rows []Row) []Figure {
	var figures []Figure
	for _, g := range goals() {
		m := g.measure(rows)
		if !m.there {
			continue
		}
		f := g.figure()
		f.Value, f.Turns = m.value, m.turns
		switch {
		case !m.asWanted:
		case m.value <= g.aim:
			f.Verdict = Aimed
		case m.value <= g.must:
			f.Verdict = Pass
		default:
			f.Verdict = Miss
		}
		figures = append(figures, f)
	}
	return figures
}

// of takes a value from a row.
func of(row Row, value string) measurement {
	v, there := row.Values[value]
	return measurement{value: v, turns: row.inTurns(value), there: there, asWanted: row.inEnoughTurns()}
}

// at takes a value from the row of the wanted size, or from the largest there is as a trial.
func at(scenario, value string, n int) measure {
	return func(rows []Row) measurement {
		if row, ok := Find(rows, scenario, n); ok {
			return of(row, value)
		}
		m := anySize(scenario, value)(rows)
		m.asWanted = false
		return m
	}
}

// anySize takes a value from the largest row.
func anySize(scenario, value string) measure {
	return func(rows []Row) measurement {
		all := Sizes(rows, scenario)
		if len(all) == 0 {
			return measurement{}
		}
		return of(all[len(all)-1], value)
	}
}

// with makes a trial of what was measured with less of something than the goal wants, or does not say with how much.
func with(scenario, value string, least float64, inner measure) measure {
	return func(rows []Row) measurement {
		m := inner(rows)
		for _, row := range Sizes(rows, scenario) {
			if had, ok := row.Values[value]; !ok || had < least {
				m.asWanted = false
			}
		}
		return m
	}
}

// growth compares a value of many graphs with that of few: turn by turn where there are turns, because a machine is not as fast now
// as it was ten minutes ago.
func growth(value string) measure {
	return func(rows []Row) measurement {
		few, first := Find(rows, ScenarioReady, fewGraphs)
		many, second := Find(rows, ScenarioReady, manyGraphs)
		asWanted := first && second && few.inEnoughTurns() && many.inEnoughTurns()
		if !first || !second {
			all := timed(rows)
			if len(all) < 2 {
				return measurement{}
			}
			few, many = all[0], all[len(all)-1]
		}
		if few.Values[value] == 0 {
			return measurement{}
		}
		m := measurement{value: many.Values[value] / few.Values[value], there: true, asWanted: asWanted}
		for i := range min(len(few.Turns), len(many.Turns)) {
			m.turns = append(m.turns, many.Turns[i][value]/few.Turns[i][value])
		}
		if len(m.turns) > 0 {
			m.value = Median(m.turns)
		}
		return m
	}
}

// timed are the rows with a time per graph, which an empty cluster has none of.
func timed(rows []Row) []Row {
	var all []Row
	for _, row := range Sizes(rows, ScenarioReady) {
		if row.Values[ValuePerGraph] > 0 {
			all = append(all, row)
		}
	}
	return all
}

// IsWhole tells whether rows have the way to Ready of all numbers of graphs that goals are set for, as they want it measured.
func IsWhole(rows []Row) bool { return memoryPerThousand(rows).asWanted }

// memoryPerThousand is the slope of the most memory the operator ever had over the number of graphs: in the middle turn, where there
// are turns.
func memoryPerThousand(rows []Row) measurement {
	var peaks []Row
	turns := -1
	for _, row := range Sizes(rows, ScenarioReady) {
		if _, ok := row.Values[ValuePeak]; !ok {
			continue
		}
		peaks = append(peaks, row)
		if turns < 0 || len(row.Turns) < turns {
			turns = len(row.Turns)
		}
	}
	if len(peaks) < 2 {
		return measurement{}
	}
	slope := func(peak func(Row) float64) float64 {
		var points []Point
		for _, row := range peaks {
			points = append(points, Point{X: float64(row.N), Y: peak(row)})
		}
		return Slope(points) * usual
	}
	m := measurement{value: slope(func(r Row) float64 { return r.Values[ValuePeak] }), there: true, asWanted: true}
	for i := range turns {
		m.turns = append(m.turns, slope(func(r Row) float64 { return r.Turns[i][ValuePeak] }))
	}
	if len(m.turns) > 0 {
		m.value = Median(m.turns)
	}
	for _, n := range []int{0, fewGraphs, usual, manyGraphs} {
		row, ok := Find(rows, ScenarioReady, n)
		m.asWanted = m.asWanted && ok && row.inEnoughTurns()
	}
	return m
}
