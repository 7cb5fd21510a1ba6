// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement brings adapters to endpoints and takes them away: which call comes next is decided by pure functions
// from what is known of an endpoint, and a keeper makes the calls beside the controllers, so that an endpoint that takes
// its time holds up nobody else.
package placement

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/lora"
)

const (
	// atOnce is how many endpoints of one model are called at the same time.
	atOnce = 10
	// firstRetry and lastRetry bound the pause after a call that failed. It doubles.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Target is a name on an endpoint. An endpoint whose pod was replaced, or whose containers were started again, is another.
type Target struct {
	Pod      types.UID
	Restarts int32
	Address  string
	Name     string
}

// Want is what a target should be like.
type Want struct {
	Target
	// URI is where the adapter comes from; empty means that the endpoint should have none of this name.
	URI string
	// Recorded is the source that the endpoint had when it was last looked at, perhaps by another process.
	Recorded string
	// Hold says to leave the endpoint alone for now. What is known of it is in doubt afterwards.
	Hold bool
}

// Report is what is known of a target.
type Report struct {
	// Loaded tells that the endpoint has the name, Settled that this is as wanted; URI is where it has it from.
	Loaded, Settled bool
	URI             string
	// Problem is why the last call failed, empty if it did not.
	Problem string
	// Waits tells that the endpoint has the name from another source and that it is not its turn to change, Unsure that the
	// endpoint was not asked yet, so that what was recorded of it may be true.
	Waits, Unsure bool
}

// sight is how much is known.
type sight int

const (
	unseen sight = iota
	absent
	present
)

// state is what is known of a target. While it is unseen, uri is what the endpoint probably has.
type state struct {
	seen    sight
	uri     string
	busy    call
	tries   int
	again   time.Time
	problem string
	// replacing tells that the adapter was taken away so that another could come, which is not there yet.
	replacing bool
}

// call is what is asked of an endpoint.
type call int

const (
	none call = iota
	ask
	load
	unload
)

func (c call) String() string { return [...]string{"none", "list", "load", "unload"}[c] }

// start is the state of a target of which nothing is known but what was recorded.
func start(w Want) state { return state{uri: w.Recorded} }

// next is the call that brings a target closer to what is wanted.
func next(s state, w Want) call {
	switch {
	case w.Hold:
		return none
	case w.URI == "" && s.seen == absent:
		return none
	case w.URI == "":
		return unload // whether or not it is there: asking first would take as long
	case s.seen == unseen:
		return ask
	case s.seen == absent:
		return load
	case s.uri != w.URI:
		return unload
	}
	return none
}

// replaces tells whether a call takes something away that serves, to make room for what is wanted.
func replaces(c call, s state, w Want) bool { return c == unload && w.URI != "" && s.seen == present }

// held is the state of a target that is left alone.
func held(s state) state {
	return state{uri: s.uri, busy: s.busy}
}

// learn is the state after a call. For ask, found tells whether the name was among the adapters.
func learn(s state, w Want, c call, found bool, err error, now time.Time) state {
	s.busy = none
	if err != nil {
		s.problem = err.Error()
		s.tries++
		s.again = now.Add(pause(s.tries))
		if lora.IsDoubtful(err) && c != ask {
			s.seen = unseen
			if c == load {
				s.uri = w.URI // nothing else was there
			}
		}
		return s
	}
	s.again = time.Time{}
	if c != ask || found {
		s.tries, s.problem = 0, "" // that nothing is there after a call that failed is no success
	}
	switch c {
	case ask:
		s.seen = absent
		if found {
			s.seen, s.replacing = present, false
		}
	case load:
		s.seen, s.uri, s.replacing = present, w.URI, false
	case unload:
		s.replacing = s.seen == present && w.URI != ""
		s.seen, s.uri = absent, ""
	}
	return s
}

func pause(tries int) time.Duration {
	wait := firstRetry
	for range tries - 1 {
		wait = min(2*wait, lastRetry)
	}
	return wait
}

// entry is a target with what is wanted and known of it.
type entry struct {
	want  Want
	state state
}

// plan picks the entries whose call is made now, and the time at which another one's comes. At most one endpoint is without
// what it had at any time: the next is changed when the last has what it should, so a source that cannot be loaded takes an
// adapter from one endpoint and leaves it to the others.
func plan(entries []*entry, now time.Time) (due []*entry, wake time.Time) {
	free := atOnce
	turn := true
	for _, e := range entries {
		if e.state.busy != none {
			free--
		}
		turn = turn && !e.isReplacing()
	}
	for _, e := range entries {
		c := next(e.state, e.want)
		if c == none || e.state.busy != none {
			continue
		}
		if e.state.again.After(now) {
			if wake.IsZero() || e.state.again.Before(wake) {
				wake = e.state.again
			}
			continue
		}
		swap := replaces(c, e.state, e.want)
		if free == 0 || swap && !turn {
			continue
		}
		if swap {
			turn = false
		}
		free--
		due = append(due, e)
	}
	return due, wake
}

// isReplacing tells whether the endpoint is without what it had because another source is wanted.
func (e *entry) isReplacing() bool {
	return e.want.URI != "" && !e.want.Hold && (e.state.replacing || e.state.busy == unload)
}

func (e *entry) report() Report {
	s, w := e.state, e.want
	r := Report{Loaded: s.seen == present, Problem: s.problem}
	if r.Loaded {
		r.URI = s.uri
	}
	r.Settled = !w.Hold && s.busy == none && next(s, w) == none
	r.Unsure = !w.Hold && s.seen == unseen && s.problem == "" && s.uri != "" && s.uri == w.URI
	r.Waits = s.busy == none && replaces(next(s, w), s, w) && s.problem == ""
	return r
}

// sorted is the order in which endpoints get their turn.
func sorted(entries map[Target]*entry) []*entry {
	all := make([]*entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return compare(a.want.Target, b.want.Target) })
	return all
}
