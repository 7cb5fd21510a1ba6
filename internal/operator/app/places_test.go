// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// given is a request that the queue gave out, or that it ended.
type given struct {
	request  reconcile.Request
	shutdown bool
}

// worker asks for one request, as a worker of a controller does.
func worker(p *places) <-chan given {
	c := make(chan given, 1)
	go func() {
		request, shutdown := p.Get()
		c <- given{request, shutdown}
	}()
	return c
}

func requests(n int) []reconcile.Request {
	all := make([]reconcile.Request, n)
	for i := range all {
		all[i].NamespacedName = client.ObjectKey{Namespace: "team", Name: fmt.Sprint("g", i)}
	}
	return all
}

const soon, never = 10 * time.Second, 50 * time.Millisecond

func TestWhoIsHeldUpGivesItsPlaceToAnother(t *testing.T) {
	t.Parallel()
	p := newPlaces(t.Name(), 2, newRetries(), logr.Discard())
	defer p.ShutDown()
	p.after = time.Hour
	all := requests(3)
	for _, r := range all {
		p.Add(r)
	}
	first, second := <-worker(p), <-worker(p)
	third := worker(p)
	select {
	case got := <-third:
		t.Fatalf("%v was given out although no place is free", got)
	case <-time.After(never):
	}
	p.leave(first.request) // as it does by itself after a while
	var last given
	select {
	case last = <-third:
	case <-time.After(soon):
		t.Fatal("the place of a pass that is held up stays taken")
	}
	p.Done(first.request)
	p.Done(second.request)
	p.Done(last.request)
	if n := len(p.free); n != 0 {
		t.Errorf("%d places are taken by nobody", n)
	}
}

func TestAPassIsHeldUpAfterAWhile(t *testing.T) {
	t.Parallel()
	p := newPlaces(t.Name(), 1, newRetries(), logr.Discard())
	defer p.ShutDown()
	p.after = time.Millisecond
	for _, r := range requests(2) {
		p.Add(r)
	}
	first := <-worker(p)
	select {
	case second := <-worker(p):
		p.Done(second.request)
	case <-time.After(soon):
		t.Fatal("nobody else is served while one pass is held up")
	}
	p.Done(first.request)
}

func TestNobodyGivesItsPlaceAwayWhileOthersGetOn(t *testing.T) {
	t.Parallel()
	p := newPlaces(t.Name(), 2, newRetries(), logr.Discard())
	defer p.ShutDown()
	p.after = time.Hour
	if wait := p.moving(time.Now()); wait > 0 {
		t.Errorf("others are waited for for %s though none ever ended", wait)
	}
	p.Add(requests(1)[0])
	p.Done((<-worker(p)).request)
	if wait := p.moving(p.ended.Add(p.after / 4)); wait != p.after*3/4 {
		t.Errorf("it waits %s after one ended, want the rest of the time in which another may", wait)
	}
	if wait := p.moving(p.ended.Add(p.after)); wait > 0 {
		t.Errorf("it waits %s though none has ended for as long as that", wait)
	}
	p.after, p.ended = time.Millisecond, time.Now().Add(time.Hour) // others end all the time
	for _, r := range requests(3) {
		p.Add(r)
	}
	first, second := <-worker(p), <-worker(p)
	select {
	case got := <-worker(p):
		t.Errorf("%v was given out although others get on", got)
	case <-time.After(never):
	}
	p.Done(first.request)
	p.Done(second.request)
}

func TestATimerOfAnEarlierPassLeavesThePlaceOfTheNext(t *testing.T) {
	t.Parallel()
	p := newPlaces(t.Name(), 1, newRetries(), logr.Discard())
	defer p.ShutDown()
	p.after = time.Hour
	request := requests(1)[0]
	p.Add(request)
	<-worker(p)
	p.mu.Lock()
	late := p.taken[request]
	p.mu.Unlock()
	p.Done(request)
	p.Add(request)
	<-worker(p)
	p.mu.Lock()
	p.expire(request, late)
	p.mu.Unlock()
	if n := len(p.free); n != 1 {
		t.Errorf("%d places are taken by one pass", n)
	}
	p.Done(request)
	if n := len(p.free); n != 0 {
		t.Errorf("%d places are taken by nobody", n)
	}
}

func TestWhoWaitsForAPlaceIsLetGoAtTheEnd(t *testing.T) {
	t.Parallel()
	p := newPlaces(t.Name(), 1, newRetries(), logr.Discard())
	p.after = time.Hour
	p.Add(requests(1)[0])
	first := <-worker(p)
	waiting := worker(p)
	p.ShutDown()
	select {
	case got := <-waiting:
		if !got.shutdown {
			t.Errorf("%v was given out at the end", got.request)
		}
	case <-time.After(soon):
		t.Fatal("it waits for ever")
	}
	p.Done(first.request)
}

// TestWhatComesBackKeepsItsPlace has passes over a newcomer end with an error, or with the wish to be called again, several times. Controllers
// give its request back with the priority that it was given out with. A newcomer then goes before other newcomers, what was found
// before what else was found; neither goes before what a user changes, which has priority 0.
func TestWhatComesBackKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]priorityqueue.AddOpts{
		"after a while":  {After: time.Millisecond},
		"after an error": {RateLimited: true},
	} {
		for first, then := range map[int]int{afterOthers: 0, handler.LowPriority: foundAndBegun} {
			p := newPlaces(t.Name(), 1, newRetries(), logr.Discard())
			defer p.ShutDown()
			addAt(p, first, requests(1)[0])
			request, priority, _ := p.GetWithPriority()
			if priority != first {
				t.Errorf("a newcomer has priority %d, want %d", priority, first)
			}
			for range 3 {
				again.Priority = &priority
				p.AddWithOpts(again, request)
				p.Done(request)
				if _, priority, _ = p.GetWithPriority(); priority != then {
					t.Errorf("%s: what was begun with priority %d comes back with %d, want %d", name, first, priority, then)
				}
			}
			p.Done(request)
		}
	}
}
