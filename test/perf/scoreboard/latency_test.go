// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// patience is how long a single sample may take.
const patience = 2 * time.Minute

// latency is a distribution of milliseconds as values.
func latency(milliseconds []float64) values {
	d := perf.Distribute(milliseconds)
	return values{perf.ValueP50: d.P50, perf.ValueP99: d.P99, "maxMilliseconds": d.Max, perf.ValueSamples: float64(d.Count)}
}

func milliseconds(d time.Duration) float64 { return 1000 * d.Seconds() }

// images notes when Deployments were seen with an image for the first time.
type images struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (i *images) see(event watch.Event, at time.Time) {
	d, ok := event.Object.(*appsv1.Deployment)
	if !ok {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range d.Spec.Template.Spec.Containers {
		if _, known := i.at[c.Image]; !known {
			i.at[c.Image] = at
		}
	}
}

func (i *images) await(t *testing.T, image string) time.Time {
	t.Helper()
	var at time.Time
	harness.Eventually(t, patience, "a Deployment with image "+image, func() (bool, string) {
		i.mu.Lock()
		defer i.mu.Unlock()
		var ok bool
		at, ok = i.at[image]
		return ok, "there is none"
	})
	return at
}

const (
	// editEvery is how often a user edits during a resync: so that several edits fall into it, and the API server has as much left for
	// the operator as with a user who waits for each.
	editEvery = 100 * time.Millisecond
	// mostStarts is how many operators may start before there are enough edits.
	mostStarts = 60
)

// edit is a change of an image by a user.
type edit struct {
	image string
	sent  time.Time
}

// editDuringResync is how long a user waits for an edit while a new operator looks at n graphs: from the request that
// changes an image to the Deployment that has it. Edits are sent whether or not those before were served, until the operator has looked at
// everything. All that were sent before count, also those that are served long after; then another operator starts, until there are
// enough.
func editDuringResync(t *testing.T, binary string, n int) values {
	s := converged(t, binary, n)
	seen := &images{at: map[string]time.Time{}}
	s.Follow(&appsv1.DeploymentList{}, seen.see)
	var took []float64
	starts, edits, doubts := 0, 0, 0
	for ; len(took) < *samples; starts++ {
		if starts == mostStarts {
			t.Fatalf("%d edits were sent while %d operators looked at %d graphs, want %d: each was done too soon", len(took), starts, n, *samples)
		}
		s.Restart()
		due := time.Now()
		during, inDoubt := perf.SentWhile(int(perf.Limit(n)/editEvery), func() edit {
			perf.Wait(t, time.Until(due))
			due = time.Now().Add(editEvery)
			image := fmt.Sprintf("registry.example.com/dynamo:edit-%d", edits)
			edits++
			return edit{image, s.ChangeOne((edits*7)%n, perf.Image(image, "Frontend"))}
		}, func() bool {
			all, _ := perf.LookedAtAll(t, s.Operator, n)
			return !all
		})
		if len(inDoubt) == 0 {
			t.Fatalf("the operator had not looked at everything after %d edits", len(during))
		}
		for _, e := range during {
			took = append(took, milliseconds(seen.await(t, e.image).Sub(e.sent)))
		}
		for _, e := range inDoubt {
			seen.await(t, e.image)
		}
		doubts += len(inDoubt)
	}
	v := latency(took)
	v["starts"], v[perf.ValueInDoubt] = float64(starts), float64(doubts)
	return v
}

// eventToStatus is how long after a workload's status was stored its graph's status is seen to follow, with n others at
// rest: down and up again.
func eventToStatus(t *testing.T, binary string, n int) values {
	s := converged(t, binary, n)
	s.StopSimulator()
	api := s.Client(perf.SimulatorUser)
	var took []float64
	for i := range *samples {
		key := s.Key((i / 2 * 7) % n)
		up := i%2 == 1
		d := &appsv1.Deployment{}
		d.Namespace, d.Name = key.Namespace, names.Component(key.Name, "Decode")
		sent := time.Now()
		if err := api.Status().Patch(t.Context(), d, available(up)); err != nil {
			t.Fatalf("report Deployment %s: %v", d.Name, err)
		}
		stored := time.Now()
		took = append(took, milliseconds(s.Recorder.AwaitFlip(key, up, sent, patience).Sub(stored)))
	}
	return latency(took)
}

// available is a patch of a Deployment's status.
func available(up bool) client.Patch {
	counts, status := `"readyReplicas":null,"availableReplicas":null,"unavailableReplicas":1`, "False"
	if up {
		counts, status = `"readyReplicas":1,"availableReplicas":1,"unavailableReplicas":null`, "True"
	}
	return client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{`+counts+`,"conditions":[{"type":"Available","status":"`+status+`","reason":"Measured"}]}}`))
}

// admission is how much longer the creation of a graph takes with webhooks than without, at a fixed rate. Graphs are created
// without being stored, so that nothing but admission differs, by turns with and without, beside the same operator. All requests of
// all turns count; the median turn and the worst are told beside it. The first turns are not counted, because an API server that has just
// started has a heap that still grows.
func admission(t *testing.T, binary string, _ int) values {
	const turns = 9
	s := perf.NewStage(t, binary)
	count := *rate * *samples / 40 // five seconds at the usual numbers
	send := s.Rehearsals(count)
	var with, without [][]float64
	for i := range 1 + turns {
		if i > 0 {
			harness.InstallWebhooks(t)
		}
		on := admitted(t, s, true, send, count)
		s.RemoveWebhooks()
		off := admitted(t, s, false, send, count)
		if i > 0 {
			with, without = append(with, on), append(without, off)
		}
	}
	on, off := perf.Distribute(slices.Concat(with...)), perf.Distribute(slices.Concat(without...))
	over := make([]float64, turns)
	for i := range turns {
		over[i] = p99s(with)[i] - p99s(without)[i]
	}
	t.Logf("p99 over no webhook of each turn: %.1f ms", over)
	return values{
		perf.ValueRate: float64(*rate), perf.ValueOver: on.P99 - off.P99, perf.ValueSamples: float64(turns * count),
		perf.ValueP50: on.P50, perf.ValueP50Without: off.P50, perf.ValueP99: on.P99, perf.ValueP99Without: off.P99,
		perf.ValueWorst: slices.Max(p99s(with)), perf.ValueWorstWithout: slices.Max(p99s(without)),
		perf.ValueMedianOver: perf.Median(p99s(with)) - perf.Median(p99s(without)),
		perf.ValueLeastOver:  slices.Min(over), perf.ValueMostOver: slices.Max(over),
	}
}

// p99s are those of all turns.
func p99s(turns [][]float64) []float64 {
	all := make([]float64, len(turns))
	for i, took := range turns {
		all[i] = perf.Distribute(took).P99
	}
	return all
}

// admitted is one turn. It begins once nothing is new any more: the operator has told the API server of its certificates, which
// makes it compile the conditions of all webhooks and connect anew, and connections were made.
func admitted(t *testing.T, s *perf.Stage, webhooks bool, send func(context.Context, int) error, count int) []float64 {
	t.Helper()
	s.AwaitStamps(webhooks)
	perf.NewTrail(t).Settle(perf.OperatorUser, perf.Limit(0))
	admit(t, send, count/5)
	return admit(t, send, count)
}

// admit sends requests at the rate, whether or not those before were answered, and returns how long each took from the
// moment it was due.
func admit(t *testing.T, send func(context.Context, int) error, count int) []float64 {
	t.Helper()
	took, failed := make([]float64, count), make([]error, count)
	var sending sync.WaitGroup
	begin := time.Now()
	for i := range count {
		// Not a ticker: it leaves a beat out where somebody is late for it, and every later request would seem late by that.
		due := begin.Add(time.Duration(i+1) * time.Second / time.Duration(*rate))
		perf.Wait(t, time.Until(due))
		sending.Go(func() {
			failed[i] = send(t.Context(), i)
			took[i] = milliseconds(time.Since(due))
		})
	}
	sending.Wait()
	for _, err := range failed {
		if err != nil {
			t.Fatalf("create a graph without storing it: %v", err)
		}
	}
	return took
}
