// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Wire is what lies between an operator and its API server, and between it and the workers that it brings adapters to. It counts,
// remembers and, when told so, fails.
type Wire struct {
	// turn is held by one write at a time while writes are numbered, so that "after the n-th" has one meaning and no
	// write overtakes a crash.
	turn sync.Mutex

	mu      sync.Mutex
	fault   *Fault
	matched int
	fired   []string
	asked   map[string][]time.Time
	// met counts the writes that are alike.
	met     map[string]int
	crashed bool
	writes  []deedAt
	worked  time.Time
	sights  map[string]*sight
	// looks counts requests about APIs and not about objects, by what they ask for.
	looks map[string]int
	// watches counts those that were begun, by what they are of.
	watches map[string]int
	// hidden are the groups of APIs that the operator does not find.
	hidden map[string]bool
}

// optional are the groups that only some stories are about. Whoever finds them works with them.
var optional = []string{gangs, groupsOfNodes, pools, meshes, podGroups}

// The groups of optional APIs.
const (
	groupsOfNodes, gangs = "leaderworkerset.x-k8s.io", "grove.io"
	pools, meshes        = "inference.networking.k8s.io", "networking.istio.io"
	podGroups            = "scheduling.volcano.sh"
)

// NewWire returns a wire without faults. Of the optional groups, it shows those that are named.
func NewWire(shown ...string) *Wire {
	hidden := map[string]bool{}
	for _, group := range optional {
		hidden[group] = !slices.Contains(shown, group)
	}
	return &Wire{
		hidden: hidden, worked: time.Now(), asked: map[string][]time.Time{}, met: map[string]int{}, looks: map[string]int{},
		watches: map[string]int{}, sights: map[string]*sight{},
	}
}

// Arm makes requests fail from now on; the zero Fault fails none. What is counted begins anew.
func (w *Wire) Arm(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault, w.matched, w.fired, w.writes, w.worked = nil, 0, nil, nil, time.Now()
	if f.Kind != "" {
		w.fault = &f
	}
	clear(w.asked)
	clear(w.met)
	clear(w.looks)
	clear(w.watches)
}

// Clear ends the fault. What it hit stays known.
func (w *Wire) Clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = nil
}

// Fired are the requests that were hit since the last Arm.
func (w *Wire) Fired() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.fired...)
}

// Asked is when a fault met each object. A status counts by itself, because others write it.
func (w *Wire) Asked() map[string][]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

// HasCrashed tells whether the operator is to be taken for dead.
func (w *Wire) HasCrashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crashed
}

// deedAt is a write that reached the API server.
type deedAt struct {
	call Call
	at   time.Time
}

// Writes are the names of all writes since the last Arm that reached the API server, in their order.
func (w *Wire) Writes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, times := make([]string, 0, len(w.writes)), map[string]int{}
	for _, one := range w.writes {
		times[one.call.String()]++
		all = append(all, one.call.occurrence(times[one.call.String()]))
	}
	return all
}

// FirstWrite is when the first write since the last Arm reached the API server, zero for never.
func (w *Wire) FirstWrite() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.writes) == 0 {
		return time.Time{}
	}
	return w.writes[0].at
}

// Busiest is, for each object, how many writes there were in the busiest window of a length. What it is written for counts by
// itself: a status is not a spec.
func (w *Wire) Busiest(window time.Duration) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	times := map[string][]time.Time{}
	for _, one := range w.writes {
		times[one.call.Target()] = append(times[one.call.Target()], one.at)
	}
	most := map[string]int{}
	for key, at := range times {
		first := 0
		for last := range at {
			for at[last].Sub(at[first]) >= window {
				first++
			}
			most[key] = max(most[key], last-first+1)
		}
	}
	return most
}

// Started says that the operator is up now. How long it took to start has no part in how long it has asked for nothing.
func (w *Wire) Started() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worked = time.Now()
}

// look notes a request about an API.
func (w *Wire) look(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks[path]++
}

// watch notes the beginning of a watch.
func (w *Wire) watch(address *url.URL) {
	asked := address.Query()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches[strings.Join([]string{address.Path, asked.Get("labelSelector"), asked.Get("fieldSelector")}, " ")]++
}

// Looks is how often the operator has asked for each API since the last Arm. It may do so for ever, if seldom.
func (w *Wire) Looks() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.looks)
}

// Watches is how often the operator has begun each watch since the last Arm. It may do so for ever, if seldom.
func (w *Wire) Watches() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.watches)
}

// QuietFor is how long the operator has asked for nothing.
func (w *Wire) QuietFor() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.worked)
}

// Wrap puts the wire in front of a transport to an API server.
func (w *Wire) Wrap(next http.RoundTripper) http.RoundTripper { return w.wrap(next, CallOf) }

// WrapWorker puts the wire in front of a transport to a worker.
func (w *Wire) WrapWorker(worker string, next http.RoundTripper) http.RoundTripper {
	return w.wrap(next, func(method string, address *url.URL) Call { return CallToWorker(worker, method, address) })
}

func (w *Wire) wrap(next http.RoundTripper, read func(method string, address *url.URL) Call) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		call := read(req.Method, req.URL)
		if call.Resource == "" {
			w.look(req.URL.Path)
		}
		if call.Watch {
			w.watch(req.URL)
		}
		if w.hidden[call.Group] {
			return Fault{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}.refusal(req), dropped(req, nil)
		}
		if w.isNumbered() && call.IsWrite() {
			w.turn.Lock()
			defer w.turn.Unlock()
		}
		fault, dead := w.meet(call)
		if dead {
			return nil, dropped(req, errCrashed)
		}
		if fault != nil {
			return w.fail(*fault, call, req, next)
		}
		return w.pass(call, req, next)
	})
}

// isNumbered tells whether a fault waits for a certain write.
func (w *Wire) isNumbered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != nil && (w.fault.Nth > 0 || w.fault.At != "")
}

// meet counts a request and returns the fault that it meets, nil for none.
func (w *Wire) meet(call Call) (fault *Fault, dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crashed {
		return nil, true
	}
	if call.IsWork() {
		w.worked = time.Now()
	}
	if call.IsWrite() {
		w.met[call.String()]++
	}
	if w.fault == nil || !w.fault.concerns(call) {
		return nil, false
	}
	w.matched++
	name := call.occurrence(w.met[call.String()])
	if w.fault.Nth > 0 && w.matched != w.fault.Nth || w.fault.At != "" && name != w.fault.At {
		return nil, false
	}
	w.fired = append(w.fired, name)
	w.asked[call.Target()] = append(w.asked[call.Target()], time.Now())
	w.crashed = w.fault.Kind == Crash
	return w.fault, false
}

// pass hands a request on.
func (w *Wire) pass(call Call, req *http.Request, next http.RoundTripper) (*http.Response, error) {
	req, refused := w.see(call, req)
	if refused != nil {
		return refused, nil
	}
	answer, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if call.IsWrite() {
		w.mu.Lock()
		w.writes = append(w.writes, deedAt{call: call, at: time.Now()})
		w.mu.Unlock()
	}
	return w.follow(call, answer), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
