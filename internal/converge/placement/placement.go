// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement brings adapters to endpoints and takes them away: which call comes next is decided by pure functions
// from what is known of an endpoint, and a keeper makes the calls beside the controllers, so that an endpoint that takes
// its time holds up nobody else.
package placement

import (
	"cmp"
	"errors"
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
	// afterwards is how long a worker may go on with a load after nobody waits for its answer any more.
	afterwards = 15 * time.Second
	// blindAfter is how many times an endpoint is asked in vain for what it has.
	blindAfter = 3
	// stuckAfter is how many times an endpoint refuses to load a name before room is made by what can go.
	stuckAfter = 3
)

// errElsewhere is why a call was not made in a namespace that belongs to another operator, or may do so.
var errElsewhere = errors.New("another operator may be at work in the namespace")

// Target is a name on an endpoint. An endpoint whose pod was replaced, or whose containers were started again, is another.
type Target struct {
	Pod      types.UID
	Restarts int32
	Name     string
}

// Want is what a target should be like.
type Want struct {
	Target
	Address string
	// URI is where the adapter comes from; empty means that the endpoint should have none of this name.
	URI string
	// Recorded is the only source that the endpoint can have the name from, as it was stored before anything was loaded. An
	// adapter is loaded only when its source is recorded, so that whoever comes after a crash knows what is there.
	Recorded string
	// Hold says to leave the endpoint alone for now. What is known of it is in doubt afterwards.
	Hold bool
}

// Report is what is known of a target.
type Report struct {
	// Loaded tells that the endpoint has the name, Settled that this is as wanted; URI is where it has it from.
	Loaded, Settled bool
	URI             string
	// Absent tells that the endpoint does not have the name, and that nothing that was asked for before can still bring it.
	Absent bool
	// Problem is why the last call failed, empty if it did not.
	Problem string
	// Waits tells that the endpoint has the name from another source and that it is not its turn to change, Unsure that the
	// endpoint was not asked yet, so that what was recorded of it may be true.
	Waits, Unsure bool
	// Stuck tells that the endpoint refuses to load the name, again and again.
	Stuck bool
}

// sight is how much is known.
type sight int

const (
	unseen sight = iota
	absent
	present
)

// state is what is known of a target.
type state struct {
	seen sight
	// uri is where it is from while it is present, empty if nobody knows.
	uri     string
	busy    call
	tries   int
	again   time.Time
	problem string
	// refused tells that the endpoint refused to drop the name, perhaps because it does not have it; blind that it does not tell
	// what it has.
	refused, blind bool
	// maybe is a source that the endpoint may go on loading until then, although nobody has an answer.
	maybe string
	until time.Time
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

// next is the call that brings a target closer to what is wanted, and the time before which it makes no sense.
func next(s state, w Want) (call, time.Time) {
	switch {
	case w.Hold:
		return none, time.Time{}
	case w.URI == "":
		return away(s)
	case s.maybe != "" && s.maybe != w.URI:
		return unload, later(s.again, s.until) // what comes late would be taken for what is wanted
	case s.seen == unseen:
		return look(s, w), s.again
	case s.seen == absent && w.Recorded == w.URI:
		return load, s.again
	case s.seen == present && s.uri != w.URI:
		return unload, s.again
	}
	return none, time.Time{}
}

// away is the next call to an endpoint that should not have the name.
func away(s state) (call, time.Time) {
	switch {
	case s.seen == absent && s.maybe != "":
		return unload, later(s.again, s.until) // for what comes late
	case s.seen == absent:
		return none, time.Time{}
	case s.refused:
		return ask, s.again
	}
	return unload, s.again // whether or not it is there: asking first would take as long
}

// look is the next call to an endpoint of which nobody knows whether it has the name.
func look(s state, w Want) call {
	switch {
	case !s.blind:
		return ask
	case w.Recorded != w.URI:
		return unload
	}
	return load // if it has it, that changes nothing
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// swaps tells whether a call takes something away that serves, to make room for what is wanted.
func swaps(c call, s state, w Want) bool { return c == unload && w.URI != "" && s.seen == present }

// held is the state of a target that is left alone.
func held(s state) state { return state{busy: s.busy, maybe: s.maybe, until: s.until} }

// answer is how a call ended. For ask, found tells whether the name was among the adapters, and listed whether the endpoint
// tells at all what it has.
type answer struct {
	err           error
	found, listed bool
}

// learn is the state after a call.
func learn(s state, w Want, c call, a answer, now time.Time) state {
	s.busy = none
	if a.err != nil {
		return s.failed(w, c, a.err, now)
	}
	s.again = time.Time{}
	if c != ask || a.found {
		s.tries, s.problem = 0, "" // that nothing is there after a call that failed is no success
	}
	switch c {
	case ask:
		return s.asked(w, a)
	case load:
		s.seen, s.uri, s.maybe = present, w.URI, ""
	case unload:
		s.seen, s.uri, s.refused = absent, "", false
		if !now.Before(s.until) {
			s.maybe = "" // otherwise it is done once more then
		}
	}
	return s
}

// failed is the state after a call that failed.
func (s state) failed(w Want, c call, err error, now time.Time) state {
	s.tries++
	s.again = now.Add(pause(s.tries))
	if errors.Is(err, errElsewhere) {
		return s // nothing was asked
	}
	s.problem = err.Error()
	doubtful := lora.IsDoubtful(err)
	switch {
	case c == ask && s.tries >= blindAfter:
		return s.asked(w, answer{})
	case c == load && doubtful:
		s.seen, s.maybe, s.until = unseen, w.URI, now.Add(afterwards)
	case c == unload && doubtful:
		s.seen = unseen
	case c == unload:
		s.refused = true
	}
	return s
}

// asked is the state of an endpoint that said what it has, or that it does not say so.
func (s state) asked(w Want, a answer) state {
	s.refused, s.blind = false, !a.listed
	switch {
	case a.found:
		s.seen, s.uri, s.maybe = present, w.Recorded, ""
	case a.listed, w.Recorded == "" && w.URI != "":
		s.seen, s.uri = absent, "" // what was never recorded was never loaded
	default:
		s.seen = unseen
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
// what it had at any time: the next is changed when all others have what they should, so a source that cannot be loaded takes
// an adapter from one endpoint and leaves it to the others.
func plan(entries []*entry, now time.Time) (due []*entry, wake time.Time) {
	free := atOnce
	turn := true
	for _, e := range entries {
		if e.state.busy != none {
			free--
		}
		turn = turn && !e.isWithout()
	}
	// Those that fail are not to keep others from their first try.
	byTries := slices.Clone(entries)
	slices.SortStableFunc(byTries, func(a, b *entry) int { return cmp.Compare(a.state.tries, b.state.tries) })
	for _, e := range byTries {
		c, from := next(e.state, e.want)
		if c == none || e.state.busy != none {
			continue
		}
		if from.After(now) {
			if wake.IsZero() || from.Before(wake) {
				wake = from
			}
			continue
		}
		swap := swaps(c, e.state, e.want)
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

// isWithout tells whether an endpoint that should have the adapter may have none. One that is left alone counts if it was given
// what is wanted now: that may be what ails it.
func (e *entry) isWithout() bool {
	if e.want.URI == "" {
		return false
	}
	if e.want.Hold {
		return e.want.Recorded == e.want.URI
	}
	return e.state.seen != present || e.state.busy == unload
}

func (e *entry) isStuck() bool {
	return e.state.seen == absent && e.want.URI != "" && e.state.tries >= stuckAfter
}

func (e *entry) report() Report {
	s, w := e.state, e.want
	c, _ := next(s, w)
	r := Report{Loaded: s.seen == present, Problem: s.problem, Absent: s.seen == absent && (s.maybe == "" || s.maybe == w.URI)}
	if r.Loaded {
		r.URI = s.uri
	}
	r.Settled = !w.Hold && s.busy == none && c == none && r.Loaded == (w.URI != "")
	if r.Settled {
		r.Problem = ""
	}
	r.Unsure = !w.Hold && s.seen == unseen && s.problem == "" && w.Recorded != "" && w.Recorded == w.URI
	r.Stuck = e.isStuck()
	r.Waits = s.busy == none && swaps(c, s, w) && s.problem == ""
	return r
}

// sorted is the order in which endpoints get their turn.
func sorted(entries map[Target]*entry) []*entry {
	all := make([]*entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.want.Address, b.want.Address), cmp.Compare(a.want.Name, b.want.Name), cmp.Compare(a.want.Pod, b.want.Pod))
	})
	return all
}
