// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// anteroom is where newcomers of one kind wait while newcomers of another, which they are made into, wait to be begun. Queues put
// what was begun before what is new, but each of its own kind alone: of thousands of graphs that are made at once, more and more
// would be begun whose components nobody has looked at, and each of them would have to be told to be not ready.
type anteroom struct {
	mu sync.Mutex
	// moved tells that a newcomer was begun, or that nobody begins anything any more.
	moved *sync.Cond
	// queued are the newcomers of each kind that are in its queue and were not begun.
	queued map[string]map[reconcile.Request]struct{}
	// last is when a newcomer of a kind was begun, or the first of them had to wait.
	last map[string]time.Time
	// held are those that are not in a queue yet, in the order in which they came, of each kind.
	held   map[string][]reconcile.Request
	closed bool
}

func newAnteroom() *anteroom {
	a := &anteroom{
		queued: map[string]map[reconcile.Request]struct{}{}, last: map[string]time.Time{}, held: map[string][]reconcile.Request{},
	}
	a.moved = sync.NewCond(&a.mu)
	return a
}

// flow is how newcomers of a kind get into its queue.
type flow struct {
	room *anteroom
	kind string
	// next is the kind that this one is made into, empty for none.
	next string
	// most and mostNext are how many newcomers of both may wait to be begun.
	most, mostNext int
}

// flowOf is the flow of a kind. Half as many newcomers as there are passes at once are enough for those never to wait for work.
func flowOf(room *anteroom, k kind) flow {
	f := flow{room: room, kind: k.name, next: k.next, most: k.workers / 2}
	for _, other := range kinds() {
		if other.name == k.next {
			f.mostNext = other.workers / 2
		}
	}
	return f
}

// enter queues a newcomer, now or when there is room.
func (f flow) enter(q workqueue.TypedRateLimitingInterface[reconcile.Request], request reconcile.Request) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if f.next == "" {
		f.queue(q, request)
		return
	}
	f.room.held[f.kind] = append(f.room.held[f.kind], request)
	if len(f.room.held[f.kind]) == 1 {
		go f.letIn(q)
	}
}

// letIn queues those who are held, one after the other, until there are none. Whoever is being let in is still held, so that there
// is never more than one who does this.
func (f flow) letIn(q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	for len(f.room.held[f.kind]) > 0 {
		for f.mustWait(time.Now()) {
			// Time passes without anybody telling.
			timer := time.AfterFunc(slowAfter, f.room.moved.Broadcast)
			f.room.moved.Wait()
			timer.Stop()
		}
		f.queue(q, f.room.held[f.kind][0])
		f.room.held[f.kind] = f.room.held[f.kind][1:]
	}
	delete(f.room.held, f.kind)
}

// mustWait tells whether too many wait, and get on. Where nobody is begun, because somebody holds up all passes or the operator does
// not lead, waiting for them would only hold up those who have nothing to do with them.
func (f flow) mustWait(now time.Time) bool {
	waits := func(kind string, most int) bool {
		return len(f.room.queued[kind]) >= most && now.Sub(f.room.last[kind]) < slowAfter
	}
	return !f.room.closed && (waits(f.kind, f.most) || waits(f.next, f.mostNext))
}

// queue puts a newcomer behind everything that was begun. The lock must be held.
func (f flow) queue(q workqueue.TypedRateLimitingInterface[reconcile.Request], request reconcile.Request) {
	if f.room.queued[f.kind] == nil {
		f.room.queued[f.kind] = map[reconcile.Request]struct{}{}
	}
	if len(f.room.queued[f.kind]) == 0 {
		f.room.last[f.kind] = time.Now()
	}
	f.room.queued[f.kind][request] = struct{}{}
	addAt(q, afterOthers, request)
}

// begun is told of every request that a queue gives out.
func (f flow) begun(request reconcile.Request) {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	if _, ok := f.room.queued[f.kind][request]; ok {
		delete(f.room.queued[f.kind], request)
		f.room.last[f.kind] = time.Now()
		f.room.moved.Broadcast()
	}
}

// close lets everybody in, because a queue was shut down and gives nothing out any more.
func (f flow) close() {
	f.room.mu.Lock()
	defer f.room.mu.Unlock()
	f.room.closed = true
	f.room.moved.Broadcast()
}

// addAt queues a request with a priority, where the queue knows any.
func addAt(q workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, request reconcile.Request) {
	if queue, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}
