// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
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
)

// soakKinds are the faults that happen at random to one request in a hundred.
var soakKinds = []Kind{LostRequest, LostResponse, TornResponse}

// TestNothingIsStuckAfterFaultsAtRandom has graphs come, change and go under an operator whose requests fail now and then. Its
// dice are seeded: -faults.seed repeats a run as far as time allows.
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
	dice := rand.New(rand.NewPCG(*seed, 0)) //nolint:gosec // dice
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return dice.IntN(n)
	}
	alive := map[int]bool{}
	var samples []sample
	for end := time.Now().Add(*soak); time.Now().Before(end) || r.Faults == 0; {
		wire.Arm(Fault{Kind: soakKinds[roll(len(soakKinds))], Concerns: func(c Call) bool { return c.IsWork() && roll(100) == 0 }})
		for range 10 {
			churnOne(t, ns, roll(*soakGraphs), roll(3), alive)
		}
		for i := range alive {
			harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
		}
		r.Faults += len(wire.Fired())
		samples = append(samples, takeSample())
	}
	checkLeaks(t, samples)
	wire.Clear()
	for i := range alive {
		remove(t, builders.Graph(ns, fmt.Sprintf("g%d", i)).Obj(), metav1.DeletePropagationBackground)
	}
	b.nothingOfOurs(t, ns, b.rest(t, ns, wire))
}

// sample is what the process holds at a moment. It is the tests' as well as the operator's.
type sample struct {
	at         time.Time
	heap       float64 // MiB
	goroutines int
}

func takeSample() sample {
	runtime.GC()
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

// checkLeaks looks at all samples but those of the first quarter. The slope of the heap is that of the line through their
// smallest values, because garbage comes and goes.
func checkLeaks(t *testing.T, samples []sample) {
	t.Helper()
	settled := samples[len(samples)/4:]
	first, last := settled[0], settled[len(settled)-1]
	t.Logf("%d samples, goroutines %d to %d, heap %.1f to %.1f MiB", len(samples), first.goroutines, last.goroutines, first.heap, last.heap)
	if *soak < leakAfter {
		return
	}
	if last.goroutines > first.goroutines+moreGoroutines {
		t.Errorf("goroutines grew from %d to %d", first.goroutines, last.goroutines)
	}
	smallest := func(some []sample) sample {
		return slices.MinFunc(some, func(a, b sample) int { return cmp.Compare(a.heap, b.heap) })
	}
	early, late := smallest(settled[:len(settled)/2+1]), smallest(settled[len(settled)/2:])
	if hours := late.at.Sub(early.at).Hours(); hours > 0 && (late.heap-early.heap)/hours > heapGrowth {
		t.Errorf("the heap grew from %.1f to %.1f MiB in %.1f hours", early.heap, late.heap, hours)
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
