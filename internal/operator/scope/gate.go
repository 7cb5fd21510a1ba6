// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// errLapsed ends passes when the right to work was not confirmed in time. They are repeated.
var errLapsed = errors.New("it was not confirmed in time that no other operator works in the namespace")

// gate lets passes in, counts them, and ends them. Passes run until a moment that is put off again and again; a gate
// that nobody looks after shuts by itself.
type gate struct {
	clock clock.WithDelayedExecution
	// left tells that a pass has left a namespace that is shut.
	left chan struct{}

	mu    sync.Mutex
	until time.Time
	timer clock.Timer
	shut  map[string]bool
	in    map[string]map[*pass]bool
	// cut is when the last pass left that was ended from outside, by namespace. What it had sent may still arrive.
	cut map[string]time.Time
}

// pass is one pass that was let in.
type pass struct {
	ctx       context.Context
	cancel    context.CancelCauseFunc
	namespace string
	gate      *gate
}

// passKey is where a context carries the pass that it is of.
type passKey struct{}

// Transport keeps requests of passes from being sent when their time is over. The end of their context would do the same
// if timers were always on time; in a process that was frozen for a while they are not.
func Transport(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip sends a request unless it comes too late.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	p, ok := req.Context().Value(passKey{}).(*pass)
	if !ok || p.mayGoOn() {
		return t.next.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close()
	}
	return nil, errLapsed
}

// newGate returns a gate that lets nobody in until it is extended.
func newGate(c clock.WithDelayedExecution) *gate {
	return &gate{
		clock: c, left: make(chan struct{}, 1),
		shut: map[string]bool{}, in: map[string]map[*pass]bool{}, cut: map[string]time.Time{},
	}
}

// enter returns nil where no pass may be.
func (g *gate) enter(ctx context.Context, namespace string) *pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut[namespace] || !g.clock.Now().Before(g.until) {
		return nil
	}
	p := &pass{namespace: namespace, gate: g}
	ctx, p.cancel = context.WithCancelCause(ctx)
	p.ctx = context.WithValue(ctx, passKey{}, p)
	if g.in[namespace] == nil {
		g.in[namespace] = map[*pass]bool{}
	}
	g.in[namespace][p] = true
	return p
}

// leave has to be called when a pass is over.
func (p *pass) leave() {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.ctx.Err() != nil {
		g.cut[p.namespace] = g.clock.Now()
	}
	p.cancel(nil)
	delete(g.in[p.namespace], p)
	if len(g.in[p.namespace]) > 0 {
		return
	}
	delete(g.in, p.namespace)
	if !g.shut[p.namespace] && !g.until.IsZero() {
		return
	}
	select {
	case g.left <- struct{}{}:
	default: // somebody is about to look
	}
}

// mayGoOn tells whether a pass that was let in would be let in now.
func (p *pass) mayGoOn() bool {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return !p.gate.shut[p.namespace] && p.gate.clock.Now().Before(p.gate.until)
}

// extend lets passes run until then.
func (g *gate) extend(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.until = until
	// A goroutine of its own: a clock may call back while it is being asked for the time.
	g.timer = g.clock.AfterFunc(until.Sub(g.clock.Now()), func() { go g.lapse() })
}

// lapse ends passes whose time is over.
func (g *gate) lapse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clock.Now().Before(g.until) {
		return // it was extended meanwhile
	}
	g.end(errLapsed)
}

// close ends all passes and lets nobody in until the gate is extended again.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.until = time.Time{}
	g.end(errNotOurs)
}

func (g *gate) end(cause error) {
	for namespace := range g.in {
		g.endIn(namespace, cause)
	}
}

func (g *gate) endIn(namespace string, cause error) {
	for p := range g.in[namespace] {
		p.cancel(cause)
	}
}

// take ends the passes of one namespace and lets nobody in there. It tells whether that is new.
func (g *gate) take(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut[namespace] {
		return false
	}
	g.shut[namespace] = true
	g.endIn(namespace, errNotOurs)
	return true
}

// give lets passes into a namespace again. It tells whether that is new.
func (g *gate) give(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.shut[namespace]
	delete(g.shut, namespace)
	delete(g.cut, namespace)
	return was
}

// taken tells whether a namespace is shut.
func (g *gate) taken(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut[namespace]
}

// quiet is from when on nothing that passes of a namespace sent can arrive any more, and false while one is in.
func (g *gate) quiet(namespace string) (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.in[namespace]) > 0 {
		return time.Time{}, false
	}
	if at, ok := g.cut[namespace]; ok {
		return at.Add(straggle), true
	}
	return time.Time{}, true
}

// remaining is for how long passes may run, and whether there are any.
func (g *gate) remaining() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until.Sub(g.clock.Now()), len(g.in) > 0
}
