// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// board are rows as a whole run has them. Peak is the memory at each size.
func board(peak map[int]float64) []Row {
	var rows []Row
	for n, mib := range peak {
		rows = append(rows, Row{Scenario: ScenarioReady, N: n, Values: map[string]float64{
			ValuePeak: mib, ValueRatio: 1.2, ValuePerGraph: 20 + float64(n)/1000, ValueWrites: 16, ValueCPU: 25,
		}})
	}
	return append(rows,
		Row{Scenario: ScenarioRestart, N: 1000, Values: map[string]float64{ValueAllWrites: 0}},
		Row{Scenario: ScenarioIdle, N: 1000, Values: map[string]float64{ValueOther: 6, ValueWindow: 600}},
		Row{Scenario: ScenarioAdmission, N: 1000, Values: map[string]float64{ValueOver: 2, ValueRate: 100}},
		Row{Scenario: ScenarioEdit, N: 1000, Values: map[string]float64{ValueP99: 50, ValueSamples: 200}},
		Row{Scenario: ScenarioPods, N: 100, Values: map[string]float64{ValueWrites: 26, ValuePods: 1000}},
	)
}

func TestFiguresAreJudgedAtTheSizesTheirGoalsAreSetFor(t *testing.T) {
	t.Parallel()
	full := map[int]float64{0: 50, 200: 60, 1000: 100, 2000: 150}
	for name, tc := range map[string]struct {
		rows []Row
		want map[string]Verdict
	}{
		"a whole run": {board(full), map[string]Verdict{
			"1,000 graphs Ready": Aimed, "growth: time per graph at 2,000 over 200": Aimed,
			"growth of the ratio to the null writer, 2,000 over 200": Aimed,
			"writes, status writes and events per graph":             Pass, "operator CPU per graph": Miss,
			"memory per 1,000 more graphs": Pass, "writes after a restart": Aimed,
			"idle: requests besides leases and watches": Miss, "admission over no webhook at 200/s, p99": Trial, // at half the rate
			"user edit served while 1,000 others resync, p99": Trial, // without those in doubt
			"writes per graph with pods, real controllers":    Miss,
		}},
		"a trial": {board(map[int]float64{20: 60, 50: 70}), map[string]Verdict{
			"1,000 graphs Ready": Trial, "growth: time per graph at 2,000 over 200": Trial,
			"growth of the ratio to the null writer, 2,000 over 200": Trial,
			"writes, status writes and events per graph":             Trial, "operator CPU per graph": Trial,
			"memory per 1,000 more graphs": Trial, "writes after a restart": Aimed,
			"idle: requests besides leases and watches": Miss, "admission over no webhook at 200/s, p99": Trial,
			"user edit served while 1,000 others resync, p99": Trial, "writes per graph with pods, real controllers": Miss,
		}},
		"nothing": {nil, map[string]Verdict{}},
	} {
		got := map[string]Verdict{}
		for _, f := range Judge(tc.rows) {
			got[f.Name] = f.Verdict
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: verdicts (-want +got):\n%s", name, diff)
		}
	}
	for _, f := range Judge(board(full)) {
		if f.Name == "memory per 1,000 more graphs" && (f.Value < 49.9 || f.Value > 50.1) {
			t.Errorf("memory grows by %v MiB per 1,000 graphs, want 50", f.Value)
		}
	}
}

func TestAResultComesBackAsItWasStored(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	newer := Result{
		Date: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), Commit: "0123456789", Machine: ThisMachine(), Load: 0.5,
		Rows: board(map[int]float64{1000: 100}),
	}
	newer.Finish()
	older := newer
	older.Date = newer.Date.Add(-time.Hour)
	for _, r := range []Result{newer, older} {
		path, err := r.Write(directory)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(path, "Z-0123456.json") {
			t.Errorf("it is stored in %s", path)
		}
	}
	got, err := ReadResults(os.DirFS(directory))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Result{older, newer}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if m := newer.Misses(); len(m) != 3 {
		t.Errorf("misses: %q", m)
	}
	if newer.Machine.Cores == 0 || newer.Machine.GoVersion == "" {
		t.Errorf("nothing is known of the machine: %+v", newer.Machine)
	}
}

// turned are rows of two numbers of graphs that were measured in some turns.
func turned(turns int) []Row {
	var few, many []map[string]float64
	for i := range turns {
		null := []float64{10, 20, 40, 10, 10}[i]
		few = append(few, map[string]float64{ValuePerGraph: 20 + float64(i), ValueNull: null, ValueRatio: 20 / null})
		many = append(many, map[string]float64{ValuePerGraph: 2 * (20 + float64(i)), ValueNull: null, ValueRatio: 20 / null})
	}
	return []Row{ByTurns(ScenarioReady, fewGraphs, few), ByTurns(ScenarioReady, manyGraphs, many)}
}

func TestAValueOfTurnsIsTheMedianOfItsOwn(t *testing.T) {
	t.Parallel()
	rows := turned(5)
	if diff := cmp.Diff(map[string]float64{ValuePerGraph: 22, ValueNull: 10, ValueRatio: 2}, rows[0].Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	for turns, want := range map[int]Verdict{WantedTurns: Miss, WantedTurns - 1: Trial} {
		found := false
		for _, f := range Judge(turned(turns)) {
			if f.Name != "growth: time per graph at 2,000 over 200" {
				continue
			}
			found = true
			if f.Value != 2 || len(f.Turns) != turns || f.Verdict != want {
				t.Errorf("%d turns: growth %v of turns %v is %s, want 2 of each turn, %s", turns, f.Value, f.Turns, f.Verdict, want)
			}
		}
		if !found {
			t.Errorf("%d turns: there is no growth", turns)
		}
	}
}

func TestWhatIsNoNumberIsFound(t *testing.T) {
	t.Parallel()
	if err := turned(2)[0].Check(); err != nil {
		t.Error(err)
	}
	for name, row := range map[string]Row{
		"a value":           {Scenario: ScenarioReady, Values: map[string]float64{ValueRatio: math.Inf(1)}},
		"a value of a turn": {Scenario: ScenarioReady, Turns: []map[string]float64{{ValueRatio: math.NaN()}}},
	} {
		if err := row.Check(); err == nil || !strings.Contains(err.Error(), ValueRatio) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryGoalCanBeJudged has a run with everything as goals want it. A goal that asks for a value which no scenario tells would be a
// trial for ever.
func TestEveryGoalCanBeJudged(t *testing.T) {
	t.Parallel()
	var rows []Row
	for _, n := range []int{0, fewGraphs, usual, manyGraphs} {
		turn := map[string]float64{ValuePeak: 60, ValueRatio: 1.2, ValuePerGraph: 20, ValueWrites: 13, ValueCPU: 5}
		rows = append(rows, ByTurns(ScenarioReady, n, slices.Repeat([]map[string]float64{turn}, WantedTurns)))
	}
	rows = append(rows,
		Row{Scenario: ScenarioRestart, N: usual, Values: map[string]float64{ValueAllWrites: 0}},
		Row{Scenario: ScenarioIdle, N: usual, Values: map[string]float64{ValueOther: 0, ValueWindow: 600, ValueLeases: 3600, ValueEachWatch: 12}},
		Row{Scenario: ScenarioEdit, N: usual, Values: map[string]float64{ValueP99: 50, ValueSamples: 200, ValueInDoubt: 9}},
		Row{Scenario: ScenarioEvent, N: usual, Values: map[string]float64{ValueP99: 20, ValueSamples: 200}},
		Row{Scenario: ScenarioAdmission, Values: map[string]float64{ValueOver: 2, ValueMedianOver: -1, ValueRate: 200, ValueSamples: rehearsals}},
		Row{Scenario: ScenarioForeign, N: fewGraphs, Values: map[string]float64{ValueChange: -1, ValueForeign: 10_000, ValueSecrets: 300}},
		Row{Scenario: ScenarioUpdate, N: usual, Values: map[string]float64{ValueWrites: 11}},
		Row{Scenario: ScenarioDelete, N: usual, Values: map[string]float64{ValueAllWrites: 0}},
		Row{Scenario: ScenarioPods, N: PodGraphs, Values: map[string]float64{ValueWrites: 16, ValuePods: Pods}},
	)
	verdicts := map[string]Verdict{}
	for _, f := range Judge(rows) {
		verdicts[f.Name] = f.Verdict
	}
	for _, goal := range Goals() {
		if verdicts[goal.Name] != Aimed {
			t.Errorf("%s: %q, want %q", goal.Name, verdicts[goal.Name], Aimed)
		}
	}
}
