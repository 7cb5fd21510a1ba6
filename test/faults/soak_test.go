// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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
// a minute go all together. Its dice are seeded: with the same -faults.seed users do the same things in the same order; which request
// fails depends on who is faster.
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
	if *soak < LeakAfter {
		r.Note = "too short to judge growth"
	}
	t.Logf("seed %d", *seed)
	ns, wire := b.begin(t)
	// What users do must not depend on how many requests there were.
	users, fate := newDice(*seed, 0), newDice(*seed, 1)
	var samples []sample
	most := 0
	for end := time.Now().Add(*soak); time.Now().Before(end) || r.Faults == 0; {
		alive := map[int]bool{}
		for spell := time.Now().Add(min(spellFor, time.Until(end))); time.Now().Before(spell) || r.Faults == 0; {
			wire.Arm(Fault{Kind: soakKinds[fate.roll(len(soakKinds))], Concerns: func(c Call) bool { return c.IsWork() && fate.roll(100) == 0 }})
			churnSome(t, ns, users, alive)
			most = max(most, len(alive))
			r.Faults += len(wire.Fired())
		}
		wire.Arm(Fault{})
		for i := range alive {
			remove(t, builders.Graph(ns, fmt.Sprintf("g%d", i)).Obj(), metav1.DeletePropagationBackground)
		}
		b.nothingOfOurs(t, ns, b.lastRest(t, ns, wire))
		samples = append(samples, takeSample())
		t.Logf("%d faults so far, %s", r.Faults, samples[len(samples)-1])
	}
	if *soak >= LeakAfter {
		r.Note = checkLeaks(t, samples)
	}
	r.Note = fmt.Sprintf("at most %d graphs at once; %s", most, r.Note)
}

// churnSome does ten things to graphs and waits until all are ready.
func churnSome(t *testing.T, ns string, users *dice, alive map[int]bool) {
	t.Helper()
	for range 10 {
		churnOne(t, ns, users.roll(*soakGraphs), users.roll(4), alive)
	}
	for i := range alive {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
}

// spellFor is how long graphs come and go before all of them go.
const spellFor = time.Minute

// dice may be rolled by all requests at once.
type dice struct {
	mu   sync.Mutex
	rand *rand.Rand
}

func newDice(seed, which uint64) *dice {
	return &dice{rand: rand.New(rand.NewPCG(seed, which))} //nolint:gosec // dice
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
	// settlesIn is for how long a heap may grow: until then, no event that was sent is forgotten. From then on they are forgotten
	// every six minutes, so that of each sweepFor the least is compared. See LeakAfter.
	settlesIn, sweepFor = 13 * time.Minute, 7 * time.Minute
	// heapGrowth is how much the heap may grow, in MiB an hour, and moreGoroutines how many more there may be at the end than
	// at first: watches come and go.
	heapGrowth     = 1.0
	moreGoroutines = 10
)

// checkLeaks judges growth by the slope of the line through the least of each sweep, and says what it found.
func checkLeaks(t *testing.T, samples []sample) string {
	t.Helper()
	settled := ofWholeSweeps(samples)
	slope := growth(leastOfEachSweep(settled, func(s sample) float64 { return s.heap }))
	perHour := growth(leastOfEachSweep(settled, func(s sample) float64 { return float64(s.goroutines) }))
	more := perHour * settled[len(settled)-1].at.Sub(settled[0].at).Hours()
	if slope > heapGrowth {
		t.Errorf("the heap grew by %.2f MiB an hour, want %.2f at most: %v", slope, heapGrowth, settled)
	}
	if more > moreGoroutines {
		t.Errorf("there are %.0f goroutines more, want %d at most: %v", more, moreGoroutines, settled)
	}
	return fmt.Sprintf("the heap grew by %.2f MiB an hour, goroutines by %.0f", slope, more)
}

// ofWholeSweeps leaves out what came before the heap had settled, and the last sweep if it was broken off: its least would be that of the
// time before events are forgotten.
func ofWholeSweeps(samples []sample) []sample {
	begin := samples[0].at.Add(settlesIn)
	whole := samples[len(samples)-1].at.Add(spellFor).Sub(begin) / sweepFor
	end := begin.Add(whole * sweepFor)
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.at.Before(begin) || !s.at.Before(end) })
}

func leastOfEachSweep(samples []sample, value func(sample) float64) map[int]float64 {
	least := map[int]float64{}
	for _, s := range samples {
		sweep := int(s.at.Sub(samples[0].at) / sweepFor)
		if was, known := least[sweep]; !known || value(s) < was {
			least[sweep] = value(s)
		}
	}
	return least
}

// growth is how much the least of each sweep grows in an hour.
func growth(least map[int]float64) float64 {
	points := make([]perf.Point, 0, len(least))
	for sweep, value := range least {
		points = append(points, perf.Point{X: float64(sweep) * sweepFor.Hours(), Y: value})
	}
	return perf.Slope(points)
}

// TestALeakIsToldFromEventsThatAreForgotten has a heap that goes up for six minutes and falls, with and without a leak below it.
func TestALeakIsToldFromEventsThatAreForgotten(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	for perHour, want := range map[float64]bool{0: false, 0.5: false, 2: true} {
		// Where in the six minutes the run begins is a matter of luck, and so is how long after the last whole sweep it ends.
		for phase := range 6 {
			for minutes := int(LeakAfter / time.Minute); minutes < int((LeakAfter+2*sweepFor)/time.Minute); minutes++ {
				var samples []sample
				for minute := range minutes {
					unforgotten := 0.6 * float64((minute+phase)%6)
					samples = append(samples, sample{
						at: begin.Add(time.Duration(minute+1) * time.Minute), heap: 20 + unforgotten + perHour*float64(minute)/60,
					})
				}
				got := growth(leastOfEachSweep(ofWholeSweeps(samples), func(s sample) float64 { return s.heap }))
				if got > heapGrowth != want {
					t.Errorf("a heap that grows by %.1f MiB an hour is said to grow by %.2f (phase %d, %d minutes)", perHour, got, phase, minutes)
				}
			}
		}
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
	case what == 1:
		harness.Change(t, client.ObjectKey{Namespace: ns, Name: name}, edits["image"])
	default:
		harness.Change(t, client.ObjectKey{Namespace: ns, Name: name}, func(g *v1alpha1.DynamoGraphDeployment) {
			*g.Spec.Services["Decode"].Replicas = (*g.Spec.Services["Decode"].Replicas + int32(what)) % 5 //nolint:gosec // 2 or 3
		})
	}
}
