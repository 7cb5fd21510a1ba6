// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scoreboard_test measures the operator and compares it with what it must and should be. A run takes about forty-five
// minutes on two quiet cores, so it runs when it is asked for:
//
//	make perf
//	make perf PERFFLAGS='-sizes=0,20,50 -graphs=50 -idle=20s -results=' (a trial)
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

// wantedSizes are the numbers of graphs of -sizes, and of those the least and the most graphs between which growth is measured:
// nothing for fewer than two.
func wantedSizes(t *testing.T) (all []int, few, many int) {
	t.Helper()
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-sizes: %v", err)
		}
		all = append(all, n)
	}
	some := slices.DeleteFunc(slices.Clone(all), func(n int) bool { return n == 0 })
	if len(some) < 2 {
		return all, 0, 0
	}
	return all, slices.Min(some), slices.Max(some)
}

func scenarios(sizes []int) []scenario {
	var all []scenario
	for _, n := range sizes {
		all = append(all, scenario{perf.ScenarioReady, n, ready})
	}
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
	if binary == "" {
		binary = perf.BuildOperator(t)
	}
	result, err := perf.NewResult(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sizes, few, many := wantedSizes(t)
	if many > few {
		t.Run("growth", func(t *testing.T) {
			for n, v := range readyByTurns(t, binary, few, many) {
				row := perf.Row{Scenario: perf.ScenarioReady, N: n, Values: v}
				t.Logf("%s", row)
				result.Rows = append(result.Rows, row)
			}
		})
		sizes = slices.DeleteFunc(sizes, func(n int) bool { return n == few || n == many })
	}
	for _, s := range scenarios(sizes) {
		t.Run(fmt.Sprintf("%s %d", s.name, s.n), func(t *testing.T) {
			row := perf.Row{Scenario: s.name, N: s.n, Values: s.run(t, binary, s.n)}
			t.Logf("%s", row)
			result.Rows = append(result.Rows, row)
		})
	}
	result.Finish()
	for _, f := range result.Figures {
		t.Logf("%-60s %10.4g %-14s must %-6.4g aim %-6.4g %s", f.Name, f.Value, f.Unit, f.Must, f.Aim, f.Verdict)
	}
	for _, miss := range result.Misses() {
		t.Error(miss)
	}
	if *results == "" {
		return
	}
	path, err := result.Write(*results)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("stored in %s", path)
}
