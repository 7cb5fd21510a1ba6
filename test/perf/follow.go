// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Follow watches all objects of a kind and hands every state of them to see, one after the other, with the time at which
// it arrived, until the returned function is called or the test ends.
func (b *Bed) Follow(list client.ObjectList, see func(event watch.Event, at time.Time)) (stop func()) {
	b.t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(b.t, GeneratorUser), client.Options{Scheme: harness.Scheme(b.t)})
	if err != nil {
		b.t.Fatalf("make a recorder's client: %v", err)
	}
	return b.until(func(ctx context.Context) error {
		for ctx.Err() == nil {
			w, err := api.Watch(ctx, list)
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("watch %T: %w", list, err)
			}
			if err == nil {
				read(ctx, w, see)
			}
		}
		return nil
	})
}

func read(ctx context.Context, w watch.Interface, see func(event watch.Event, at time.Time)) {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			see(event, time.Now())
		}
	}
}

// verdict is what a graph's status said of one generation at first.
type verdict struct {
	generation int64
	ready      bool
}

// Recorder notes when graphs were seen to become Ready, and to stop being so.
type Recorder struct {
	// Stop ends the watch before the test ends.
	Stop func()

	b *Bed

	mu  sync.Mutex
	now map[client.ObjectKey]verdict
	at  map[client.ObjectKey]map[verdict]time.Time
}

// Record watches graphs.
func (b *Bed) Record() *Recorder {
	b.t.Helper()
	r := &Recorder{b: b, now: map[client.ObjectKey]verdict{}, at: map[client.ObjectKey]map[verdict]time.Time{}}
	r.Stop = b.Follow(&v1alpha1.DynamoGraphDeploymentList{}, r.see)
	return r
}

func (r *Recorder) see(event watch.Event, at time.Time) {
	g, ok := event.Object.(*v1alpha1.DynamoGraphDeployment)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(g)
	r.mu.Lock()
	defer r.mu.Unlock()
	if event.Type == watch.Deleted {
		delete(r.now, key)
		delete(r.at, key)
		return
	}
	c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.ObservedGeneration != g.Generation {
		return
	}
	v := verdict{generation: g.Generation, ready: c.Status == metav1.ConditionTrue}
	if r.now[key] == v {
		return
	}
	r.now[key] = v
	if r.at[key] == nil {
		r.at[key] = map[verdict]time.Time{}
	}
	r.at[key][v] = at
}

// Ready returns when a graph was last seen to become Ready in a generation.
func (r *Recorder) Ready(key client.ObjectKey, generation int64) (time.Time, bool) {
	return r.when(key, verdict{generation: generation, ready: true})
}

func (r *Recorder) when(key client.ObjectKey, v verdict) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[key][v]
	return at, ok && r.now[key] == v
}

// AwaitAll waits until graphs 0 to n-1 are Ready in a generation, and returns when each became so.
func (r *Recorder) AwaitAll(n int, generation int64, limit time.Duration) []time.Time {
	r.b.t.Helper()
	at := make([]time.Time, n)
	first := 0 // all before it are Ready
	harness.Eventually(r.b.t, limit, fmt.Sprintf("%d graphs Ready", n), func() (bool, string) {
		for ; first < n; first++ {
			var ok bool
			if at[first], ok = r.Ready(r.b.Key(first), generation); !ok {
				return false, fmt.Sprintf("%s is not", r.b.Key(first))
			}
		}
		return true, ""
	})
	return at
}

// AwaitFlip waits until a graph is, or is not, Ready since a moment, and returns when it was seen.
func (r *Recorder) AwaitFlip(key client.ObjectKey, ready bool, since time.Time, limit time.Duration) time.Time {
	r.b.t.Helper()
	var at time.Time
	harness.Eventually(r.b.t, limit, fmt.Sprintf("graph %s has Ready %t", key, ready), func() (bool, string) {
		r.mu.Lock()
		now := r.now[key]
		r.mu.Unlock()
		var ok bool
		at, ok = r.when(key, verdict{generation: now.generation, ready: ready})
		return ok && at.After(since), "it is still as before"
	})
	return at
}

// Since is how long after its request each graph was Ready, in seconds.
func Since(sent, ready []time.Time) Distribution {
	seconds := make([]float64, len(sent))
	for i := range sent {
		seconds[i] = ready[i].Sub(sent[i]).Seconds()
	}
	return Distribute(seconds)
}

// Span is the time from the first request to the last graph that was Ready.
func Span(sent, ready []time.Time) time.Duration {
	if len(sent) == 0 {
		return 0
	}
	first, last := sent[0], ready[0]
	for i := range sent {
		if sent[i].Before(first) {
			first = sent[i]
		}
		if ready[i].After(last) {
			last = ready[i]
		}
	}
	return last.Sub(first)
}
