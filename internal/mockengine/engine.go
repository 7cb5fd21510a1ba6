// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Refusals of an engine. What else Generate returns is the end of its context or a request that never fits.
var (
	// ErrFull says that as many requests wait as may.
	ErrFull = errors.New("the engine is full")
	// ErrStopped says that the engine ended before the answer did.
	ErrStopped = errors.New("the engine was stopped")
)

// EngineOptions say how an engine runs.
type EngineOptions struct {
	Limits Limits
	Timing Timing
	// Clock is waited on; a VirtualClock makes the engine answer at once.
	Clock clock.Clock
	// Speedup divides every time; zero counts as one.
	Speedup float64
	// MaxWaiting is how many requests may wait for their turn; zero means any number.
	MaxWaiting int
}

// Engine runs a Scheduler under a clock.
type Engine struct {
	options EngineOptions
	wake    chan struct{}
	stopped chan struct{}

	mu        sync.Mutex
	scheduler *Scheduler
	streams   map[uint64]chan Token
	nextID    uint64
}

// NewEngine returns an engine that answers once it runs.
func NewEngine(o EngineOptions) *Engine {
	if o.Speedup <= 0 {
		o.Speedup = 1
	}
	return &Engine{
		options: o, wake: make(chan struct{}, 1), stopped: make(chan struct{}),
		scheduler: NewScheduler(o.Limits, o.Timing), streams: map[uint64]chan Token{},
	}
}

// Run computes until the context ends. It runs once.
func (e *Engine) Run(ctx context.Context) {
	defer close(e.stopped)
	for {
		took, tokens, busy := e.step()
		if !busy {
			select {
			case <-ctx.Done():
				return
			case <-e.wake:
			}
			continue
		}
		timer := e.options.Clock.NewTimer(time.Duration(float64(took) / e.options.Speedup))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		e.deliver(tokens)
	}
}

func (e *Engine) step() (took time.Duration, tokens []Token, busy bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.scheduler.Busy() {
		return 0, nil, false
	}
	took, tokens = e.scheduler.Step()
	return took, tokens, true
}

// deliver hands tokens to those who wait for them. A stream has room for all of its tokens, so nobody is waited for.
func (e *Engine) deliver(tokens []Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, token := range tokens {
		if stream, ok := e.streams[token.ID]; ok {
			stream <- token
		}
	}
}

// Generate computes a sequence and calls emit for each of its tokens, until emit or the context has had enough. The ID of the
// sequence is chosen here.
func (e *Engine) Generate(ctx context.Context, seq Sequence, emit func(Token) error) error {
	id, stream, err := e.add(seq)
	if err != nil {
		return err
	}
	defer e.forget(id)
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("generate: %w", context.Cause(ctx))
		case <-e.stopped:
			return ErrStopped
		case token := <-stream:
			if err := emit(token); err != nil {
				return err
			}
			if token.Last {
				return nil
			}
		}
	}
}

func (e *Engine) add(seq Sequence) (uint64, <-chan Token, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if limit := e.options.MaxWaiting; limit > 0 && e.scheduler.Usage().Waiting >= limit {
		return 0, nil, ErrFull
	}
	e.nextID++
	seq.ID = e.nextID
	if err := e.scheduler.Add(seq); err != nil {
		return 0, nil, err
	}
	stream := make(chan Token, seq.Output)
	e.streams[seq.ID] = stream
	select {
	case e.wake <- struct{}{}:
	default: // it is awake
	}
	return seq.ID, stream, nil
}

func (e *Engine) forget(id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scheduler.Remove(id)
	delete(e.streams, id)
}

// Usage returns the load at this moment.
func (e *Engine) Usage() Usage {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.scheduler.Usage()
}
