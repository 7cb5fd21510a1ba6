// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// ready is the way of n new graphs to Ready, beside that of the null writer. With none it is what an operator costs that
// has just been installed.
func ready(t *testing.T, binary string, n int) values {
	var null perf.Work
	if n > 0 {
		if !t.Run("null writer", func(t *testing.T) { null = perf.NewBed(t, binary).NullWriter(n) }) {
			t.FailNow()
		}
	}
	s := perf.NewStage(t, binary)
	w := s.Fill(n, s.Graph)
	v := values{perf.ValuePeak: perf.MiB(w.Operator.Peak), perf.ValueResident: perf.MiB(w.Operator.Resident)}
	if n == 0 {
		return v
	}
	v[perf.ValueNull], v[perf.ValueRatio] = null.Span.Seconds(), w.Span.Seconds()/null.Span.Seconds()
	v["nullWriterAPIServerCPUMillisecondsPerGraph"] = 1000 * null.CPU[localcluster.APIServer].Seconds() / float64(n)
	v["nullWriterDriverCPUMillisecondsPerGraph"] = 1000 * null.CPU[perf.Driver].Seconds() / float64(n)
	v["nullWriterRevisionsPerGraph"] = float64(null.Revisions) / float64(n)
	v["graphP50Seconds"], v["graphP99Seconds"] = w.Each.P50, w.Each.P99
	lag := perf.SimulatorLag(w.Records, perf.OperatorUser, perf.SimulatorUser)
	v["simulatorP50Milliseconds"], v["simulatorP99Milliseconds"] = 1000*lag.P50, 1000*lag.P99
	v.work(w, s, n)
	if refused := perf.RefusedOnly(w.Records, perf.OperatorUser); len(refused) > 0 {
		t.Logf("refused:\n%s", perf.Transcript(refused, perf.OperatorUser))
	}
	return v
}

// byTurns are the values of every turn by the number of graphs.
type byTurns map[int][]map[string]float64

// spareTurns is how many turns may fail before there are too few. The run has failed all the same, but its other figures are worth an hour.
const spareTurns = 1

// measure measures the way to Ready of all numbers of graphs, one after the other and several times over, each with the null writer right
// before it. Seconds in which something else happens must not decide about a figure, and a machine is not as fast now as it was ten
// minutes ago. A turn in which something fails does not count for any number, because what is compared has to be of one turn.
func (r byTurns) measure(t *testing.T, binary string, numbers []int, turns int, store func()) {
	t.Helper()
	for i, whole := 0, 0; whole < turns && i < turns+spareTurns; i++ {
		turn, ok := map[int]map[string]float64{}, true
		for _, n := range numbers {
			ok = ok && t.Run(fmt.Sprintf("turn %d, %d", i+1, n), func(t *testing.T) {
				row := perf.Row{Scenario: perf.ScenarioReady, N: n, Values: ready(t, binary, n)}
				if err := row.Check(); err != nil {
					t.Fatal(err)
				}
				t.Logf("%.1f ms per graph, null writer %.2f s", row.Values[perf.ValuePerGraph], row.Values[perf.ValueNull])
				turn[n] = row.Values
			})
		}
		if !ok {
			continue
		}
		whole++
		for n, v := range turn {
			r[n] = append(r[n], v)
		}
		store()
	}
}

// rows are what was measured of each number so far.
func (r byTurns) rows(numbers []int) []perf.Row {
	var all []perf.Row
	for _, n := range numbers {
		if len(r[n]) > 0 {
			all = append(all, perf.ByTurns(perf.ScenarioReady, n, r[n]))
		}
	}
	return all
}

// lateBy are how late Deployments are reported: sooner and later than a first status waits for.
var lateBy = []time.Duration{200 * time.Millisecond, 2 * time.Second}

// reportedLate is the way of n graphs to Ready whose Deployments take their time.
func reportedLate(t *testing.T, binary string, n int, delay time.Duration) values {
	t.Helper()
	s := perf.NewStage(t, binary)
	s.StopSimulator()
	s.SimulateAfter(delay)
	w := s.Fill(n, s.Graph)
	v := values{perf.ValueDelay: milliseconds(delay), "graphP50Seconds": w.Each.P50, "graphP99Seconds": w.Each.P99}
	v.work(w, s, n)
	return v
}

// work adds what all scenarios have that are about work for n graphs.
func (v values) work(w perf.Work, s *perf.Stage, n int) {
	per := func(count int) float64 { return float64(count) / float64(n) }
	v[perf.ValueSeconds] = w.Span.Seconds()
	v[perf.ValuePerGraph] = 1000 * w.Span.Seconds() / float64(n)
	v[perf.ValueWrites] = per(w.Requests.Writes())
	v["objectWritesPerGraph"] = per(w.Requests.Creates + w.Requests.Updates + w.Requests.Deletes)
	v["statusWritesPerGraph"], v["eventsPerGraph"], v["readsPerGraph"] = per(w.Requests.Status), per(w.Requests.Events), per(w.Requests.Reads)
	refused := perf.Refused(w.Records, perf.OperatorUser)
	v["conflicts"], v["throttled"] = float64(refused[http.StatusConflict]), float64(refused[http.StatusTooManyRequests])
	v["refused"] = float64(len(perf.RefusedOnly(w.Records, perf.OperatorUser)))
	v["revisionsPerGraph"] = float64(w.Revisions) / float64(n)
	for name, part := range map[string]string{
		perf.ValueCPU: s.Operator.Name, perf.ValueServerCPU: localcluster.APIServer,
		"etcdCPUMillisecondsPerGraph": localcluster.Etcd, "driverCPUMillisecondsPerGraph": perf.Driver,
	} {
		v[name] = 1000 * w.CPU[part].Seconds() / float64(n)
	}
}

// converged is a stage with n graphs that are Ready and an operator that has settled.
func converged(t *testing.T, binary string, n int) *perf.Stage {
	t.Helper()
	s := perf.NewStage(t, binary)
	s.Fill(n, s.Graph)
	return s
}

// restart is what a new operator does that finds n graphs as they should be. It is silent while it looks at them, so that silence alone
// does not show that it has.
func restart(t *testing.T, binary string, n int) values {
	s := converged(t, binary, n)
	s.Operator.Stop()
	trail, begin := perf.NewTrail(t), time.Now()
	s.Operator = s.StartOperator()
	leads := time.Since(begin)
	awaitLook(t, s, n)
	looked := time.Since(begin)
	records := trail.Settle(perf.OperatorUser, perf.Limit(n))
	got, used := perf.Fold(records, perf.OperatorUser), s.Usage(s.Operator.Name)
	return values{
		"lookedSeconds":     looked.Seconds(),
		perf.ValueAllWrites: float64(got.Writes()), "reads": float64(got.Reads),
		"leadsSeconds": leads.Seconds(), "operatorCPUMilliseconds": 1000 * used.CPU.Seconds(),
		perf.ValuePeak: perf.MiB(used.Peak), perf.ValueResident: perf.MiB(used.Resident),
	}
}

// awaitLook waits until an operator has looked at everything. It asks seldom, because the answer is work for the operator.
func awaitLook(t *testing.T, s *perf.Stage, n int) {
	t.Helper()
	const every = 250 * time.Millisecond
	state := ""
	for range int(perf.Limit(n) / every) {
		var all bool
		if all, state = perf.LookedAtAll(t, s.Operator, n); all {
			return
		}
		perf.Wait(t, every)
	}
	t.Fatalf("not everything was looked at: %s", state)
}

// idleness is an operator of n graphs that nobody touches.
func idleness(t *testing.T, binary string, n int) values {
	s := converged(t, binary, n)
	trail, meter := perf.NewTrail(t), s.Meter(s.Operator.Name)
	perf.Wait(t, *idle)
	records, used := trail.Read(), meter.CPU()
	got, upkeep := perf.Fold(records, perf.OperatorUser), perf.FoldUpkeep(records, perf.OperatorUser)
	if got != (perf.Requests{}) {
		t.Logf("an operator that has nothing to do asked: %s", perf.Transcript(records, perf.OperatorUser))
	}
	hourly := func(count int) float64 { return float64(count) * float64(time.Hour) / float64(*idle) }
	return values{
		perf.ValueWindow: idle.Seconds(),
		perf.ValueOther:  hourly(got.Writes() + got.Reads),
		perf.ValueLeases: hourly(upkeep.Leases), perf.ValueWatches: hourly(upkeep.Watches),
		perf.ValueEachWatch:  hourly(upkeep.MostWatches),
		"operatorCPUPercent": 100 * used[s.Operator.Name].Seconds() / idle.Seconds(),
		perf.ValueResident:   perf.MiB(s.Usage(s.Operator.Name).Resident),
	}
}
