// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// runEngine runs an engine until the test ends.
func runEngine(t *testing.T, o EngineOptions) *Engine {
	t.Helper()
	if o.Limits == (Limits{}) {
		o.Limits = small()
	}
	if o.Timing.Prefill == nil {
		o.Timing = plain()
	}
	e := NewEngine(o)
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ends in a cleanup, which the test's own context does not outlive
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return e
}

func TestAnEngineTakesExactlyTheTimeOfItsIterations(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := runEngine(t, EngineOptions{Clock: fake, Speedup: 2})
	tokens := make(chan Token)
	done := make(chan error, 1)
	go func() {
		done <- e.Generate(t.Context(), Sequence{Prompt: 8, Output: 2}, func(token Token) error {
			tokens <- token
			return nil
		})
	}()
	for i, wait := range []time.Duration{4 * time.Millisecond, 5 * time.Millisecond} {
		awaitWaiter(t, fake)
		fake.Step(wait - 1)
		select {
		case <-tokens:
			t.Fatalf("token %d came too early", i)
		default:
		}
		fake.Step(1)
		if token := <-tokens; token.Index != i {
			t.Errorf("token %d has the index %d", i, token.Index)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// awaitWaiter waits until somebody waits on the clock.
func awaitWaiter(t *testing.T, fake *clocktesting.FakeClock) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !fake.HasWaiters() {
		select {
		case <-deadline:
			t.Fatal("nobody waits on the clock")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestUnderAVirtualClockAnHourTakesNoTime(t *testing.T) {
	t.Parallel()
	virtual := NewVirtualClock(time.Unix(0, 0))
	timing := plain()
	timing.Decode = func(int, int) time.Duration { return time.Hour }
	e := runEngine(t, EngineOptions{Clock: virtual, Timing: timing})
	count := 0
	err := e.Generate(t.Context(), Sequence{Prompt: 8, Output: 25}, func(Token) error {
		count++
		return nil
	})
	if err != nil || count != 25 {
		t.Fatalf("%d tokens: %v", count, err)
	}
	if got := virtual.Since(time.Unix(0, 0)); got != 24*time.Hour+8*time.Millisecond {
		t.Errorf("the clock went on by %s", got)
	}
}

func TestAFullEngineRefuses(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	limits := small()
	limits.MaxSequences = 1
	e := runEngine(t, EngineOptions{Clock: fake, Limits: limits, MaxWaiting: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	ask := func() {
		clients.Go(func() { _ = e.Generate(ctx, Sequence{Prompt: 4, Output: 4}, func(Token) error { return nil }) })
	}
	ask()
	awaitWaiter(t, fake)
	ask()
	await(t, "one request waiting", func() bool { return e.Usage().Waiting == 1 })
	if err := e.Generate(ctx, Sequence{Prompt: 4, Output: 4}, nil); !errors.Is(err, ErrFull) {
		t.Errorf("a third request: %v", err)
	}
	cancel()
	clients.Wait()
	if got := e.Usage(); got.Running+got.Waiting+got.Blocks != 0 {
		t.Errorf("left behind after the clients have gone: %+v", got)
	}
}

func TestAnEngineThatStopsTellsWhoWaits(t *testing.T) {
	t.Parallel()
	e := NewEngine(EngineOptions{Clock: clock.RealClock{}, Limits: small(), Timing: plain()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Run(ctx)
	if err := e.Generate(t.Context(), Sequence{Prompt: 4, Output: 4}, nil); !errors.Is(err, ErrStopped) {
		t.Errorf("got %v", err)
	}
}

// await waits for a condition that other goroutines bring about.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
