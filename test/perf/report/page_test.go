// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// stored are a whole run and a later trial.
func stored() Stored {
	run := perf.Result{Date: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC), Commit: "0123456789"}
	for _, n := range []int{0, 200, 1000, 2000} {
		run.Rows = append(run.Rows, perf.Row{Scenario: perf.ScenarioReady, N: n, Values: map[string]float64{
			perf.ValuePeak: 50 + float64(n)/20, perf.ValueRatio: 1.25, perf.ValueSeconds: float64(n) / 40,
			perf.ValuePerGraph: 25, perf.ValueWrites: 16,
		}})
	}
	var turns []map[string]float64
	for _, ratio := range []float64{1.1, 1.2, 1.25, 1.3, 1.4} {
		turns = append(turns, map[string]float64{perf.ValuePeak: 100, perf.ValueRatio: ratio, perf.ValueSeconds: 25, perf.ValuePerGraph: 25, perf.ValueWrites: 16})
	}
	run.Rows[2] = perf.ByTurns(perf.ScenarioReady, 1000, turns)
	run.Rows = append(run.Rows, perf.Row{Scenario: perf.ScenarioPods, N: 100, Values: map[string]float64{
		"pods": 1000, perf.ValueSeconds: 40, "deploymentsApplied": 200, "deploymentsReported": 800, "podsBound": 1000, "podsBoundLastSeconds": 31.5, "cpuSeconds kwok": 12,
	}})
	run.Finish()
	trial := perf.Result{Date: run.Date.Add(time.Hour), Commit: "fedcba9876", Changed: true}
	for _, n := range []int{50, 100} {
		trial.Rows = append(trial.Rows, perf.Row{Scenario: perf.ScenarioReady, N: n, Values: map[string]float64{
			perf.ValueRatio: 9, perf.ValuePeak: 7, perf.ValueNull: 1, perf.ValuePerGraph: 99,
		}})
	}
	trial.Rows = append(trial.Rows,
		perf.Row{Scenario: perf.ScenarioAdmission, Values: map[string]float64{perf.ValueOver: 1, perf.ValueP99: 66, perf.ValueSamples: 900, perf.ValueRate: 200}},
		perf.Row{Scenario: perf.ScenarioPods, N: 7, Values: map[string]float64{"pods": 70}},
		perf.Row{Scenario: perf.ScenarioLate, N: 7, Values: map[string]float64{perf.ValueDelay: 1234}},
	)
	trial.Finish()
	before := run
	before.Date, before.Commit, before.Incomplete = run.Date.Add(-time.Hour), "abcdef0123", []string{"idle 1000"}
	before.Rows = []perf.Row{{Scenario: perf.ScenarioReady, N: 1000, Values: map[string]float64{perf.ValueRatio: 1.5}}}
	before.Finish()
	return Stored{
		Runs: []perf.Result{before, run, trial},
		Steps: []Step{{
			Date: "2026-05-05", What: "Rendered once", Figure: "operator CPU per graph", Before: "30 ms", After: "20 ms",
			Commits: Commits{Before: "aaaaaaa", After: "bbbbbbb"}, Command: "make perf", Note: "Read off a profile.",
		}},
		Reference: Reference{
			Measured: "May 2026", Version: "a version", Machine: "a machine", Differs: []string{"It differed."}, Newer: "A newer one was slower.",
			Rows: []perf.Row{{Scenario: perf.ScenarioReady, N: 500, Values: map[string]float64{perf.ValueSeconds: 229}}},
		},
		Benchmarks: "Judge-2  1.5µ ± 2%",
	}
}

func TestThePageShowsTheLatestRunThatWasNoTrial(t *testing.T) {
	t.Parallel()
	page := stored().Files()["performance.md"]
	for _, want := range []string{
		"| 1,000 graphs Ready | x null writer | 1.25 | 5: 1.10 to 1.40 | 2 | 1.30 | 12.7 at 200, 18.5 at 500 | aim | 1.50 (one run) | 2026-05-06, 0123456 |",
		"| event to status, p99 | ms |  |  | 100 | 30 |  | not measured as wanted yet |  |  |",
		"| writes per graph with pods, real controllers * |",
		"The reference was measured once, in May 2026: a version, on a machine. It differed. A newer one was slower.",
		"| 1000 | 25 s |  | 1.25 x (1.10 to 1.40) | 16 |  |  | 100 MiB |",
		"| 2000 | 50 s |  | 1.25 x | 16 |  |  | 150 MiB |",
		"1000 pods of 100 graphs were Ready after 40 s",
		"Each Deployment was reported 4 times.",
		"| pods are bound to nodes | 1000 | 0 s | 31.5 s |",
		"| kwok | 12 s |",
		"| 2026-05-05 | Rendered once | operator CPU per graph | 30 ms | 20 ms | aaaaaaa, bbbbbbb | `make perf` | Read off a profile. |",
		"Judge-2  1.5µ ± 2%",
		"| fedcba9 with changes |",
		"| abcdef0, incomplete: idle 1000 |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for _, trial := range []string{"Admission took", "70 pods of 7 graphs", "| 1234 ms |", "| 9 x |"} {
		if strings.Contains(page, trial) {
			t.Errorf("the page shows %q of a trial:\n%s", trial, page)
		}
	}
}

func TestThePlotOfTimeShowsTheReference(t *testing.T) {
	t.Parallel()
	if plot := stored().Files()["performance/time.svg"]; !strings.Contains(plot, "<title>reference, on its own machine: 229 at 500 graphs</title>") {
		t.Errorf("the plot lacks the reference:\n%s", plot)
	}
}

func TestPlotsAreWellFormedWhateverThereIsToShow(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Stored{"runs": stored(), "nothing": {}} {
		for file, text := range s.Files() {
			if !strings.HasSuffix(file, ".svg") {
				continue
			}
			decoder := xml.NewDecoder(strings.NewReader(text))
			for {
				_, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s, %s: %v\n%s", name, file, err, text)
				}
			}
			if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%s, %s has a place that is none:\n%s", name, file, text)
			}
		}
	}
}

func TestTicksAreRoundAndReachTheLargestValue(t *testing.T) {
	t.Parallel()
	for most, want := range map[float64]float64{0: 1, 1: 0.2, 5: 1, 18.5: 4, 101: 25, 229: 50, 2000: 400, 2001: 500, 2600: 1000} {
		if got := step(most); got < want*0.999 || got > want*1.001 {
			t.Errorf("up to %v the step is %v, want %v", most, got, want)
		}
	}
}
