// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"math/rand/v2"
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
	r := &Result{Goal: "L6", Scenario: "graphs come, change and go", Fault: "one request in a hundred"}
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
	for end := time.Now().Add(*soak); time.Now().Before(end) || r.Faults == 0; {
		wire.Arm(Fault{Kind: soakKinds[roll(len(soakKinds))], Concerns: func(c Call) bool { return c.IsWork() && roll(100) == 0 }})
		for range 10 {
			churnOne(t, ns, roll(*soakGraphs), roll(3), alive)
		}
		for i := range alive {
			harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
		}
		r.Faults += len(wire.Fired())
	}
	wire.Clear()
	for i := range alive {
		remove(t, builders.Graph(ns, fmt.Sprintf("g%d", i)).Obj(), metav1.DeletePropagationBackground)
	}
	b.nothingOfOurs(t, ns, b.rest(t, ns, wire))
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
