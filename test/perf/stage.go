// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Limit is how long something that is done for n graphs may take before it counts as stuck. It is no goal.
func Limit(n int) time.Duration { return 2*time.Minute + time.Duration(n)*time.Second/2 }

// Stage is a bed on which everybody is at work: the operator, a simulator of Deployments, a recorder of graphs.
type Stage struct {
	*Bed

	Operator *harness.Process
	Recorder *Recorder
	// StopSimulator leaves Deployments alone from then on.
	StopSimulator func()
}

// NewStage starts everybody, with webhooks, and returns when the operator has settled.
func NewStage(t testing.TB, binary string, opts ...harness.Option) *Stage {
	t.Helper()
	return NewStageOn(NewBed(t, binary, opts...))
}

// NewStageOn starts everybody on a bed that was prepared.
func NewStageOn(b *Bed) *Stage {
	b.t.Helper()
	s := &Stage{Bed: b}
	harness.InstallWebhooks(b.t)
	s.Operator = b.StartOperator()
	s.StopSimulator = b.Simulate()
	s.Recorder = b.Record()
	NewTrail(b.t).Settle(OperatorUser, Limit(0))
	return s
}

// Restart has the operator end as a kubelet does it, and starts another.
func (s *Stage) Restart() {
	s.t.Helper()
	s.Operator.Stop()
	s.Operator = s.StartOperator()
}

// Work is what became of a number of graphs, and what it took.
type Work struct {
	// Span is from the first request to the last graph that was Ready, Each how long each graph took, in seconds.
	Span time.Duration
	Each Distribution
	// Records are all requests until the operator had settled, Requests and Upkeep those of the operator.
	Records  []localcluster.AuditRecord
	Requests Requests
	Upkeep   Upkeep
	// CPU is what each process used until then, the driver until all were Ready; Operator is what the operator has had in
	// its life.
	CPU      map[string]time.Duration
	Operator Usage
	// Revisions is how many writes of anybody were stored.
	Revisions int64
}

// Driver is the process that makes graphs, simulates, records and counts.
const Driver = "driver"

// Fill creates n graphs, waits until all are Ready and the operator has settled.
func (s *Stage) Fill(n int, graph func(i int) *v1alpha1.DynamoGraphDeployment) Work {
	s.t.Helper()
	return s.work(n, 1, func() []time.Time { return s.CreateGraphs(n, graph) })
}

// Change patches n graphs, waits until all are Ready in that generation and the operator has settled.
func (s *Stage) Change(n int, generation int64, patch string) Work {
	s.t.Helper()
	return s.work(n, generation, func() []time.Time { return s.ChangeGraphs(n, patch) })
}

func (s *Stage) work(n int, generation int64, begin func() []time.Time) Work {
	s.t.Helper()
	trail, meter, revision := NewTrail(s.t), s.Meter(s.Operator.Name), s.Revision()
	sent := begin()
	ready := s.Recorder.AwaitAll(n, generation, Limit(n))
	w := Work{Span: Span(sent, ready), Each: Since(sent, ready)}
	driven := meter.CPU()[Driver] // what follows is reading
	w.Records = trail.Settle(OperatorUser, Limit(n))
	w.Requests, w.Upkeep = Fold(w.Records, OperatorUser), FoldUpkeep(w.Records, OperatorUser)
	w.CPU, w.Operator, w.Revisions = meter.CPU(), s.Usage(s.Operator.Name), s.Revision()-revision
	w.CPU[Driver] = driven
	return w
}

// Meter tells what processes use from a moment on.
type Meter struct {
	b      *Bed
	before map[string]Usage
}

// Meter begins with the control plane, the driver and the named processes.
func (b *Bed) Meter(processes ...string) *Meter {
	b.t.Helper()
	m := &Meter{b: b, before: map[string]Usage{}}
	for _, name := range append([]string{localcluster.APIServer, localcluster.Etcd, Driver}, processes...) {
		m.before[name] = m.usage(name)
	}
	return m
}

func (m *Meter) usage(name string) Usage {
	m.b.t.Helper()
	if name != Driver {
		return m.b.Usage(name)
	}
	u, err := ReadUsage(os.Getpid())
	if err != nil {
		m.b.t.Fatal(err)
	}
	return u
}

// CPU is the processor time of each process since then.
func (m *Meter) CPU() map[string]time.Duration {
	m.b.t.Helper()
	used := map[string]time.Duration{}
	for name, before := range m.before {
		used[name] = m.usage(name).CPU - before.CPU
	}
	return used
}
