// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// soakKinds are the faults that happen at random to one request in a hundred.
var soakKinds = []Kind{LostRequest, LostResponse, TornResponse}

// TestNothingIsStuckAfterFaultsAtRandom has graphs come, change and go under an operator whose requests fail now and then, and once
// a minute go all together. Its dice are seeded: -faults.seed repeats a run as far as time allows.
func TestNothingIsStuckAfterFaultsAtRandom(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	// What a short run has shown, a long one has not.
	r := &Result{
		Goal: "L6", Scenario: fmt.Sprintf("%d graphs come, change and go", *soakGraphs),
		Fault: fmt.Sprintf("one request in a hundred for %s", *soak), At: fmt.Sprint("seed ", *seed),
		Graphs: *soakGraphs, Lasting: *soak,
	}
	if !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	t.Logf("seed %d", *seed)
	ns, wire := b.begin(t)
	dice := newDice(*seed)
	var samples []sample
	for end := time.Now().Add(*soak); time.Now().Before(end) || r.Faults == 0; {
		alive := map[int]bool{}
		for spell := time.Now().Add(min(spellFor, time.Until(end))); time.Now().Before(spell) || r.Faults == 0; {
			r.Faults += churnWhileFailing(t, ns, wire, dice, alive)
		}
		wire.Arm(Fault{})
		for i := range alive {
			remove(t, builders.Graph(ns, fmt.Sprintf("g%d", i)).Obj(), metav1.DeletePropagationBackground)
		}
		b.nothingOfOurs(t, ns, b.lastRest(t, ns, wire))
		samples = append(samples, takeSample())
		t.Logf("%d faults so far, %s", r.Faults, samples[len(samples)-1])
	}
	checkLeaks(t, samples)
}

// churnWhileFailing does ten things to graphs while requests fail, waits until all is well, and returns how many did.
func churnWhileFailing(t *testing.T, ns string, wire *Wire, dice *dice, alive map[int]bool) int {
	t.Helper()
	wire.Arm(Fault{Kind: soakKinds[dice.roll(len(soakKinds))], Concerns: func(c Call) bool { return c.IsWork() && dice.roll(100) == 0 }})
	for range 10 {
		churnOne(t, ns, dice.roll(*soakGraphs), dice.roll(3), alive)
	}
	for i := range alive {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
	return len(wire.Fired())
}

// spellFor is how long graphs come and go before all of them go.
const spellFor = time.Minute

// dice may be rolled by all requests at once.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func newDice(seed uint64) *dice {
	return &dice{rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // dice
}

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rand.IntN(n)
}

// sample is what the process holds at a moment without graphs, so that how many there are has no part in it. It is the tests' as well
// as the operator's.
type sample struct {
	at         time.Time
	heap       float64 // MiB
	goroutines int
}

func (s sample) String() string {
	return fmt.Sprintf("heap %.2f MiB, %d goroutines", s.heap, s.goroutines)
}

func takeSample() sample {
	// What a pool held at the first collection it gives up at the second, and what a finalizer held goes at the third.
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return sample{at: time.Now(), heap: float64(m.HeapAlloc) / (1 << 20), goroutines: runtime.NumGoroutine()}
}

const (
	// leakAfter is how long a soak lasts before it can tell a leak from a start.
	leakAfter = 20 * time.Minute
	// heapGrowth is how much the heap may grow, in MiB an hour, and moreGoroutines how many more there may be at the end than
	// after a quarter of the time: watches come and go.
	heapGrowth     = 1.0
	moreGoroutines = 50
)

// checkLeaks looks at all samples but those of the first quarter, in which every graph has been there for the first time. The heap is
// judged by the slope of the line through all of them.
func checkLeaks(t *testing.T, samples []sample) {
	t.Helper()
	settled := samples[len(samples)/4:]
	first, last := settled[0], settled[len(settled)-1]
	points := make([]perf.Point, len(settled))
	for i, s := range settled {
		points[i] = perf.Point{X: s.at.Sub(first.at).Hours(), Y: s.heap}
	}
	if *soak < leakAfter {
		return
	}
	slope := perf.Slope(points)
	t.Logf("from %s to %s, the heap by %.2f MiB an hour", first, last, slope)
	if last.goroutines > first.goroutines+moreGoroutines {
		t.Errorf("goroutines grew from %d to %d", first.goroutines, last.goroutines)
	}
	if slope > heapGrowth {
		t.Errorf("the heap grew by %.2f MiB an hour, want %.2f at most: %v", slope, heapGrowth, settled)
	}
}

// churnOne makes a graph that is not there, and changes or deletes one that is.
func churnOne(t *testing.T, ns string, i, what int, alive map[int]bool) {
	t.Helper()
	name := fmt.Sprintf("g%d", i)
	switch {
	case !alive[i]:
		gone(t, ns, name, &v1alpha1.DynamoGraphDeployment{})
		create(t, builders.TwoComponents(ns, name).Obj())
		alive[i] = true
	case what == 0:
		remove(t, builders.Graph(ns, name).Obj(), metav1.DeletePropagationBackground)
		delete(alive, i)
	default:
		harness.Change(t, client.ObjectKey{Namespace: ns, Name: name}, func(g *v1alpha1.DynamoGraphDeployment) {
			*g.Spec.Services["Decode"].Replicas = (*g.Spec.Services["Decode"].Replicas + int32(what)) % 5 //nolint:gosec // 1 or 2
		})
	}
}
