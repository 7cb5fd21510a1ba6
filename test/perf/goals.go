// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

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

	// Of admission, which is a difference.
	ValueP50Without   = "p50WithoutMilliseconds"
	ValueP99Without   = "p99WithoutMilliseconds"
	ValueWorst        = "worstP99Milliseconds"
	ValueWorstWithout = "worstP99WithoutMilliseconds"
	ValueMedianOver   = "medianTurnOverP99Milliseconds"
)

// The sizes at which goals are set.
const (
	fewGraphs  = 200
	usual      = 1000
	manyGraphs = 2000
)

// Verdict is what is to be said of a figure.
type Verdict string

// Verdicts. A trial was measured at other sizes than the goal is set for, and says nothing about it.
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
}

// goal is how a figure is found among rows. Measure tells whether it is there, and whether it was measured as the goal wants
// it.
type goal struct {
	name, unit string
	must, aim  float64
	reference  string
	measure    func(rows []Row) (value float64, there, asWanted bool)
}

// goals are all figures. What the reference needs was measured once, see docs/performance.md.
func goals() []goal {
	return []goal{
		{"1,000 graphs Ready", "x null writer", 2.0, 1.3, "12.7 at 200, 18.5 at 500", at(ScenarioReady, ValueRatio, usual)},
		{"growth: time per graph at 2,000 over 200", "x", 1.3, 1.1, "1.33 at 500 over 200", growth(ValuePerGraph)},
		{"growth of the ratio to the null writer, 2,000 over 200", "x", 1.3, 1.1, "1.46 at 500 over 200", growth(ValueRatio)},
		{"writes, status writes and events per graph", "requests", 17, 15, "71", at(ScenarioReady, ValueWrites, usual)},
		{"writes after a restart", "requests", 0, 0, "18 per graph at 200", at(ScenarioRestart, ValueAllWrites, usual)},
		{"operator CPU per graph", "ms", 20, 8, "95", at(ScenarioReady, ValueCPU, usual)},
		{"memory per 1,000 more graphs", "MiB", 60, 30, "170", memoryPerThousand},
		{"user edit served while 1,000 others resync, p99", "ms", 1000, 100, "", with(ScenarioEdit, ValueSamples, 200, at(ScenarioEdit, ValueP99, usual))},
		{"event to status, p99", "ms", 100, 30, "", with(ScenarioEvent, ValueSamples, 200, at(ScenarioEvent, ValueP99, usual))},
		{"admission over no webhook at 200/s, p99", "ms", 10, 3, "",
			with(ScenarioAdmission, ValueSamples, 200, with(ScenarioAdmission, ValueRate, 200, anySize(ScenarioAdmission, ValueOver)))},
		{"idle: requests besides leases and watches", "per hour", 0, 0, "", with(ScenarioIdle, ValueWindow, 600, at(ScenarioIdle, ValueOther, usual))},
		{"memory with 10,000 foreign pods and 300 MB of Secrets", "% more", 5, 5, "",
			with(ScenarioForeign, ValueSecrets, 300, with(ScenarioForeign, ValueForeign, 10_000, anySize(ScenarioForeign, ValueChange)))},
		// An update changes two components and two Deployments; the graph and its components are told twice each.
		{"update: writes, status writes and events per graph", "requests", 1.35 * 10, 1.2 * 10, "", at(ScenarioUpdate, ValueWrites, usual)},
		{"delete: writes of the operator", "requests", 0, 0, "", at(ScenarioDelete, ValueAllWrites, usual)},
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
	return Figure{Name: g.name, Unit: g.unit, Must: g.must, Aim: g.aim, Reference: g.reference, Verdict: Trial}
}

// Judge finds every figure that rows allow.
func Judge(rows []Row) []Figure {
	var figures []Figure
	for _, g := range goals() {
		value, there, asWanted := g.measure(rows)
		if !there {
			continue
		}
		f := g.figure()
		f.Value = value
		switch {
		case !asWanted:
		case value <= g.aim:
			f.Verdict = Aimed
		case value <= g.must:
			f.Verdict = Pass
		default:
			f.Verdict = Miss
		}
		figures = append(figures, f)
	}
	return figures
}

// at takes a value from the row of the wanted size, or from the largest there is as a trial.
func at(scenario, value string, n int) func([]Row) (float64, bool, bool) {
	return func(rows []Row) (float64, bool, bool) {
		if row, ok := Find(rows, scenario, n); ok {
			v, there := row.Values[value]
			return v, there, true
		}
		v, there, _ := anySize(scenario, value)(rows)
		return v, there, false
	}
}

// anySize takes a value from the largest row.
func anySize(scenario, value string) func([]Row) (float64, bool, bool) {
	return func(rows []Row) (float64, bool, bool) {
		of := Sizes(rows, scenario)
		if len(of) == 0 {
			return 0, false, false
		}
		v, there := of[len(of)-1].Values[value]
		return v, there, true
	}
}

// with makes a trial of what was measured with less of something than the goal wants, or does not say with how much.
func with(scenario, value string, least float64, measure func([]Row) (float64, bool, bool)) func([]Row) (float64, bool, bool) {
	return func(rows []Row) (float64, bool, bool) {
		v, there, asWanted := measure(rows)
		for _, row := range Sizes(rows, scenario) {
			if had, ok := row.Values[value]; !ok || had < least {
				asWanted = false
			}
		}
		return v, there, asWanted
	}
}

// growth compares a value of many graphs with that of few.
func growth(value string) func(rows []Row) (grown float64, there, asWanted bool) {
	return func(rows []Row) (grown float64, there, asWanted bool) {
		few, first := Find(rows, ScenarioReady, fewGraphs)
		many, second := Find(rows, ScenarioReady, manyGraphs)
		asWanted = first && second
		if !asWanted {
			of := timed(rows)
			if len(of) < 2 {
				return 0, false, false
			}
			few, many = of[0], of[len(of)-1]
		}
		if few.Values[value] == 0 {
			return 0, false, false
		}
		return many.Values[value] / few.Values[value], true, asWanted
	}
}

// timed are the rows with a time per graph, which an empty cluster has none of.
func timed(rows []Row) []Row {
	var of []Row
	for _, row := range Sizes(rows, ScenarioReady) {
		if row.Values[ValuePerGraph] > 0 {
			of = append(of, row)
		}
	}
	return of
}

// memoryPerThousand is the slope of the most memory the operator ever had over the number of graphs.
func memoryPerThousand(rows []Row) (value float64, there, asWanted bool) {
	var points []Point
	for _, row := range Sizes(rows, ScenarioReady) {
		if peak, ok := row.Values[ValuePeak]; ok {
			points = append(points, Point{X: float64(row.N), Y: peak})
		}
	}
	if len(points) < 2 {
		return 0, false, false
	}
	asWanted = true
	for _, n := range []int{0, fewGraphs, usual, manyGraphs} {
		_, ok := Find(rows, ScenarioReady, n)
		asWanted = asWanted && ok
	}
	return Slope(points) * usual, true, asWanted
}
