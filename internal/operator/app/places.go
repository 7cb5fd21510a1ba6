// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// slowAfter is when passes count as held up by somebody, such as a webhook of others that does not answer. Ordinary ones take
	// milliseconds; where all are slow but end one after the other, the API server has enough to do without more of them.
	slowAfter = time.Second
	// heldUp is how many passes may be held up, as a multiple of those that may run. Beyond it everybody waits: an API server that
	// answers nobody is not to be asked by more and more.
	heldUp = 3
)

// places is a queue that gives out so many requests at once, but for those whose passes take long while no other ends: whoever is held up
// gives its place to another. So a webhook that does not answer for the workloads of some graphs stops nobody else: while others
// end, at least one place is theirs, and when none ends, all are given away.
type places struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	after time.Duration
	free  chan struct{}

	mu     sync.Mutex
	taken  map[reconcile.Request]*time.Timer
	ended  time.Time // when a pass ended last
	closed chan struct{}
	close  func()
}

// newPlaces returns a queue for as many passes at once. Its controller needs workers for those that are held up besides.
func newPlaces(name string, many int, limiter workqueue.TypedRateLimiter[reconcile.Request], log logr.Logger) *places {
	closed := make(chan struct{})
	return &places{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter, o.Log = limiter, log }),
		after:         slowAfter, free: make(chan struct{}, many),
		taken: map[reconcile.Request]*time.Timer{}, closed: closed, close: sync.OnceFunc(func() { close(closed) }),
	}
}

// GetWithPriority waits for a place, and then for a request.
func (p *places) GetWithPriority() (reconcile.Request, int, bool) {
	select {
	case p.free <- struct{}{}:
	case <-p.closed:
		return reconcile.Request{}, 0, true
	}
	request, priority, shutdown := p.PriorityQueue.GetWithPriority()
	if shutdown {
		<-p.free
		return request, priority, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.take(request)
	return request, priority, false
}

// AddWithOpts queues requests. What comes back, after an error or a while, comes back with the priority that it was given out with; but it
// was begun, and what was begun goes before what was not.
func (p *places) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	if o.RateLimited || o.After > 0 {
		o.Priority = new(onceBegun(ptr.Deref(o.Priority, 0)))
	}
	p.PriorityQueue.AddWithOpts(o, requests...)
}

// onceBegun is the priority of what was given out with one and comes back. What an operator finds when it starts goes before the rest of
// that, however often it comes back, but never beside what a user makes or changes: when the API server stumbles, all of it comes back.
func onceBegun(priority int) int {
	if priority < afterOthers {
		return foundAndBegun
	}
	return max(0, priority)
}

// take has a pass give its place away by itself after a while in which no other ended. The lock must be held: until then its timer
// waits to know itself.
func (p *places) take(request reconcile.Request) {
	var timer *time.Timer
	timer = time.AfterFunc(p.after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if wait := p.moving(time.Now()); wait > 0 && p.taken[request] == timer {
			timer.Reset(wait)
			return
		}
		p.expire(request, timer)
	})
	p.taken[request] = timer
}

// moving is for how long the others still count as getting on, because one of them ended a moment ago.
func (p *places) moving(now time.Time) time.Duration { return p.after - now.Sub(p.ended) }

// expire ends the place of the pass that a timer was for. It may fire while its pass ends and the next one of the same request
// begins, whose place is another. The lock must be held.
func (p *places) expire(request reconcile.Request, timer *time.Timer) {
	if timer != nil && p.taken[request] == timer {
		timer.Stop()
		delete(p.taken, request)
		<-p.free
	}
}

// Get is GetWithPriority for those who do not care.
func (p *places) Get() (reconcile.Request, bool) {
	request, _, shutdown := p.GetWithPriority()
	return request, shutdown
}

// Done ends a pass.
func (p *places) Done(request reconcile.Request) {
	p.leave(request)
	p.PriorityQueue.Done(request)
}

// leave gives the place of a request to another, once. No request is given out again before it is done.
func (p *places) leave(request reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = time.Now()
	p.expire(request, p.taken[request])
}

// ShutDown lets those go who wait for a place.
func (p *places) ShutDown() {
	p.close()
	p.PriorityQueue.ShutDown()
}

// ShutDownWithDrain is ShutDown that waits for what is under way.
func (p *places) ShutDownWithDrain() {
	p.close()
	p.PriorityQueue.ShutDownWithDrain()
}
