// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

const (
	// publishTimeout bounds one attempt to publish: a load waits for it.
	publishTimeout = 5 * time.Second
	// publishRetry is the pause after an attempt that failed.
	publishRetry = time.Second
	// defaultRepublish is how often a worker makes sure that it is still known. Its object may have been deleted together
	// with a predecessor of the same name.
	defaultRepublish = 10 * time.Second
	// defaultGrace is how long requests may take to end when a server is stopped.
	defaultGrace = 20 * time.Second
)

// WorkerOptions say what a worker is.
type WorkerOptions struct {
	Identity Identity
	// Model is the name of the base model, ContextLength the longest sequence; zero means no limit of its own.
	Model         string
	ContextLength int
	// Role is aggregated if it is empty.
	Role Role
	// AdapterSlots is how many adapters can be loaded; zero means any number.
	AdapterSlots int
	// StartupTime passes before the worker is ready.
	StartupTime time.Duration
	// Engine may have a clock of its own. It gets that of the worker if it has none.
	Engine EngineOptions
	// Clock is the one by which the worker starts, is slow and republishes. It must not be a VirtualClock, under which
	// whatever is done every minute is done without end.
	Clock clock.Clock
	Log   logr.Logger
	// Faults may be nil.
	Faults *Faults
	// Publisher may be nil: then the worker is only found by its address.
	Publisher Publisher
	// Republish is the time between two looks at what is published; zero means ten seconds.
	Republish time.Duration
	// Grace is how long requests may take to end after the worker was told to; zero means twenty seconds.
	Grace time.Duration
	// Exit ends the process in a crash; nil means os.Exit.
	Exit func(code int)
}

// Worker is an engine with everything a pod of it answers on its system port.
type Worker struct {
	options  WorkerOptions
	engine   *Engine
	adapters *adapters
	handler  http.Handler
	created  time.Time

	ready    atomic.Bool
	stopping chan struct{}
	// dirty says that what is published is not what it should be.
	dirty chan struct{}
	// publishing keeps an older state from overtaking a newer one.
	publishing sync.Mutex
	// bringing lets adapters come one after another.
	bringing sync.Mutex
}

// NewWorker returns a worker that does nothing until it is served.
func NewWorker(o WorkerOptions) *Worker {
	o.Role = cmp.Or(o.Role, RoleAggregated)
	o.Republish = cmp.Or(o.Republish, defaultRepublish)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	if o.Engine.Clock == nil {
		o.Engine.Clock = o.Clock
	}
	if o.Faults == nil {
		o.Faults = &Faults{}
	}
	if o.Exit == nil {
		o.Exit = os.Exit
	}
	w := &Worker{
		options: o, engine: NewEngine(o.Engine), adapters: newAdapters(o.Model, o.AdapterSlots),
		created: o.Clock.Now(), stopping: make(chan struct{}), dirty: make(chan struct{}, 1),
	}
	w.handler = w.routes()
	return w
}

// Ready tells whether the worker generates.
func (w *Worker) Ready() bool { return w.ready.Load() }

// Counters returns how often things happened.
func (w *Worker) Counters() Counters { return w.adapters.count() }

// Loaded returns the adapters that are loaded, with their numbers.
func (w *Worker) Loaded() map[string]int64 { return w.adapters.list() }

// Faults are what goes wrong.
func (w *Worker) Faults() *Faults { return w.options.Faults }

// Metadata is what the worker publishes.
func (w *Worker) Metadata() Metadata {
	card := Card{
		Name: w.options.Model, Role: w.options.Role, ContextLength: w.options.ContextLength, BlockSize: w.options.Engine.Limits.BlockSize,
	}
	return describe(w.options.Identity, card, w.adapters.names())
}

// Serve starts the worker on a listener and returns when the context has ended and everything is stopped: first nobody is
// sent here any more, then requests end, then the engine. It is called once.
func (w *Worker) Serve(ctx context.Context, listener net.Listener) error {
	engineCtx, stopEngine := context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.engine.Run(engineCtx) })
	running.Go(func() { w.live(ctx) })
	defer running.Wait()
	defer stopEngine()
	defer cancel()
	return serve(ctx, server{
		handler: w.handler, listener: listener, grace: w.options.Grace,
		stopping: func() {
			w.ready.Store(false)
			close(w.stopping)
			w.withdraw(ctx)
		},
	})
}

// live goes through the life of a worker: it starts, publishes itself and sees to it that it stays known.
func (w *Worker) live(ctx context.Context) {
	if !w.start(ctx) {
		return
	}
	w.ready.Store(true)
	w.options.Log.Info("Worker became ready", "model", w.options.Model, "role", w.options.Role)
	if w.options.Publisher != nil {
		w.stayKnown(ctx)
	}
}

// stayKnown publishes the worker, again after a failure, and from time to time.
func (w *Worker) stayKnown(ctx context.Context) {
	known := false
	for {
		pause := w.options.Republish
		if err := w.publish(ctx); err != nil {
			if ctx.Err() == nil {
				w.options.Log.Error(err, "Worker could not be published")
			}
			pause = publishRetry
		} else if !known {
			known = true
			w.options.Log.Info("Worker was published")
		}
		select {
		case <-ctx.Done():
			return
		case <-w.dirty:
		case <-w.options.Clock.After(pause):
		}
	}
}

// start takes as long as loading a model does. It reports false if the worker never became ready.
func (w *Worker) start(ctx context.Context) bool {
	wait := w.options.StartupTime
	for _, f := range w.options.Faults.strike(OnStart, "", false) {
		switch f.Kind {
		case FaultCrash:
			w.options.Exit(cmp.Or(f.Status, crashStatus))
			return false
		case FaultHang:
			<-ctx.Done()
			return false
		default:
			wait += f.Delay.Duration
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.options.Clock.After(wait):
		return true
	}
}

// publish makes known what the worker is now.
func (w *Worker) publish(ctx context.Context) error {
	if w.options.Publisher == nil {
		return nil
	}
	w.publishing.Lock()
	defer w.publishing.Unlock()
	if !w.ready.Load() {
		return nil // it starts, or was withdrawn
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	return w.options.Publisher.Publish(ctx, w.Metadata())
}

// announce makes known what happened to an adapter, unless that gets lost.
func (w *Worker) announce(ctx context.Context, name string) error {
	if lost := w.options.Faults.strike(OnPublish, name, false); len(lost) > 0 {
		w.options.Log.Info("Change of an adapter was not published, as a fault wants it", "adapter", name)
		return nil
	}
	w.adapters.settle(name)
	err := w.publish(ctx)
	if err != nil {
		select {
		case w.dirty <- struct{}{}:
		default: // somebody said so before
		}
	}
	return err
}

func (w *Worker) withdraw(ctx context.Context) {
	if w.options.Publisher == nil {
		return
	}
	w.publishing.Lock()
	defer w.publishing.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	if err := w.options.Publisher.Withdraw(ctx); err != nil {
		w.options.Log.Error(err, "Worker could not be withdrawn")
		return
	}
	w.options.Log.Info("Worker was withdrawn")
}
