// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoreboard_test measures the operator and compares it with what it must and should be. A run takes more than an
// hour on two quiet cores, so it runs when it is asked for:
//
//	make perf
//	make perf PERFFLAGS='-sizes=0,20,50 -graphs=50 -samples=20 -idle=20s -turns=2 -results=' (a trial)
//	make perf PERFFLAGS='-run Scoreboard/idle'
//
// Every scenario has a fresh control plane, whose data nothing was written to before.
package scoreboard_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// Flags of a run. The defaults are what goals are set for.
var (
	wanted   = flag.Bool("perf", os.Getenv("DYNAMO_PERF") != "", "measure; without it there are no tests here")
	sizes    = flag.String("sizes", "0,200,1000,2000", "numbers of graphs whose way to Ready is measured")
	turns    = flag.Int("turns", perf.WantedTurns, "how often each of these numbers is measured, by turns")
	usual    = flag.Int("graphs", 1000, "number of graphs in the other scenarios")
	samples  = flag.Int("samples", 200, "samples of a latency")
	idle     = flag.Duration("idle", 10*time.Minute, "how long to watch an operator that has nothing to do")
	rate     = flag.Int("rate", 200, "admissions per second")
	foreign  = flag.Int("foreign-pods", 10_000, "pods of others")
	secrets  = flag.Int("foreign-secrets", 300, "Secrets of others, of a megabyte each")
	among    = flag.Int("foreign-graphs", 200, "number of graphs among them")
	repeats  = flag.Int("repeats", 3, "starts of the operator of which the median memory counts")
	crews    = flag.Int("pod-graphs", 100, "number of graphs in the tier with pods")
	replicas = flag.Int("pod-replicas", 5, "pods of each of their two components")
	results  = flag.String("results", "", "directory to store the result in, empty for none")
	operator = flag.String("operator", "", "operator to measure, empty for that of this tree; its results are not stored")
	profiles = flag.String("profiles", "", "directory for CPU and heap profiles, see TestProfile")
)

// TestMain runs nothing unless it is asked to: make test asserts counts, and has no hour for the rest.
func TestMain(m *testing.M) {
	flag.Parse()
	if !*wanted {
		return
	}
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// values are what a scenario measured.
type values map[string]float64

// scenario is a row of the board.
type scenario struct {
	name string
	n    int
	run  func(t *testing.T, binary string, n int) values
}

func (s scenario) title() string { return fmt.Sprintf("%s %d", s.name, s.n) }

// wantedSizes are the numbers of graphs of -sizes.
func wantedSizes(t *testing.T) []int {
	t.Helper()
	var all []int
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-sizes: %v", err)
		}
		all = append(all, n)
	}
	return all
}

// scenarios are all but the way to Ready, which is measured by turns.
func scenarios() []scenario {
	var all []scenario
	for _, delay := range lateBy {
		all = append(all, scenario{fmt.Sprintf("%s by %s", perf.ScenarioLate, delay), *crews, func(t *testing.T, binary string, n int) values {
			return reportedLate(t, binary, n, delay)
		}})
	}
	return append(all,
		scenario{perf.ScenarioRestart, *usual, restart},
		scenario{perf.ScenarioIdle, *usual, idleness},
		scenario{perf.ScenarioEdit, *usual, editDuringResync},
		scenario{perf.ScenarioEvent, *usual, eventToStatus},
		scenario{perf.ScenarioAdmission, 0, admission},
		scenario{perf.ScenarioUpdate, *usual, updateStorm},
		scenario{perf.ScenarioDelete, *usual, deleteStorm},
		scenario{perf.ScenarioForeign, *among, foreignObjects},
		scenario{perf.ScenarioPods, *crews, pods},
	)
}

func TestScoreboard(t *testing.T) {
	binary := *operator
	if binary != "" && *results != "" {
		t.Fatal("results are stored under the commit of this tree, and -operator may be of another: add -results=")
	}
	result, err := perf.NewResult(t.Context(), time.Now()) // before anything of this loads the machine
	if err != nil {
		t.Fatal(err)
	}
	if binary == "" {
		binary = perf.BuildOperator(t)
	}
	b := board{result: &result}
	b.plan(perf.ScenarioReady)
	for _, s := range scenarios() {
		b.plan(s.title())
	}
	numbers, runs := wantedSizes(t), byTurns{}
	if t.Run(perf.ScenarioReady, func(t *testing.T) {
		runs.measure(t, binary, numbers, *turns, func() { b.set(t, runs.rows(numbers)...) })
	}) || len(runs[numbers[0]]) == *turns {
		b.done(t, perf.ScenarioReady)
	}
	for _, s := range scenarios() {
		if t.Run(s.title(), func(t *testing.T) { b.set(t, perf.Row{Scenario: s.name, N: s.n, Values: s.run(t, binary, s.n)}) }) {
			b.done(t, s.title())
		}
	}
	for _, f := range result.Figures {
		t.Logf("%-60s %10.4g %-14s must %-6.4g aim %-6.4g %s", f.Name, f.Value, f.Unit, f.Must, f.Aim, f.Verdict)
	}
	for _, miss := range result.Misses() {
		t.Error(miss)
	}
}

// board collects rows, and stores all that is known whenever there is something new: a run may end early. A scenario that fails costs its
// own rows and no others.
type board struct{ result *perf.Result }

// plan notes what the result lacks until it is done.
func (b board) plan(scenario string) { b.result.Incomplete = append(b.result.Incomplete, scenario) }

func (b board) done(t *testing.T, scenario string) {
	t.Helper()
	b.result.Incomplete = slices.DeleteFunc(b.result.Incomplete, func(s string) bool { return s == scenario })
	b.store(t)
}

// set takes rows in, in the place of those of the same scenario and size.
func (b board) set(t *testing.T, rows ...perf.Row) {
	t.Helper()
	for _, row := range rows {
		t.Logf("%s", row)
		if err := row.Check(); err != nil {
			t.Fatal(err)
		}
		b.result.Rows = slices.DeleteFunc(b.result.Rows, func(r perf.Row) bool { return r.Scenario == row.Scenario && r.N == row.N })
		b.result.Rows = append(b.result.Rows, row)
	}
	b.store(t)
}

func (b board) store(t *testing.T) {
	t.Helper()
	b.result.Finish()
	if *results == "" {
		return
	}
	path, err := b.result.Write(*results)
	if err != nil {
		t.Fatalf("%v; what was measured: %+v", err, b.result)
	}
	t.Logf("stored in %s", path)
}
