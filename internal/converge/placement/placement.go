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
	// stuckAfter is how many times an endpoint refuses to load a name before room is made by what can go.
	stuckAfter = 3
	// believedAfter is how many times an endpoint that does not tell what it has refuses to drop a name before it is believed not to
	// have it: there is no other way to find out.
	believedAfter = 3
)

// ErrElsewhere is why a call is not made in a namespace that belongs to another operator. There is nobody to tell of it: the
// status there is the other's.
var ErrElsewhere = errors.New("another operator works in the namespace")

// notMade is a call that was not made, and why.
type notMade struct{ error }

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
	// Costs says that an endpoint which loses the name has nothing of its model until it gets another one.
	Costs bool
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
	uri  string
	busy call
	// tries counts failures since something last went well, again is when the next call makes sense, problem why the last failed.
	tries   int
	again   time.Time
	problem string
	// refusals counts loads that were refused since one succeeded, denials unloads.
	refusals, denials int
	// called tells that this keeper knows everything that was ever asked of the endpoint.
	called bool
	// denied tells that the endpoint refused to drop the name, perhaps because it does not have it; blind that it does not tell
	// what it has.
	denied, blind bool
	// maybe is a source that the endpoint may go on loading until then, although nobody waits for an answer.
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
	case s.maybe != "":
		return await(s, w)
	case w.URI == "":
		return away(s, w), s.again
	case s.seen == unseen:
		return look(s, w), s.again
	case s.seen == absent && w.Recorded == w.URI:
		return load, s.again
	case s.seen == present && s.uri != w.URI:
		return drop(s), s.again
	}
	return none, time.Time{}
}

// await is the next call to an endpoint that may be about to have the name. What is wanted is asked for now and then; what is not
// has to come before it can go, or be late.
func await(s state, w Want) (call, time.Time) {
	switch {
	case s.blind && s.maybe == w.URI:
		return load, later(s.again, s.until) // if it has it, that changes nothing
	case s.blind:
		return unload, later(s.again, s.until)
	case s.maybe == w.URI:
		return ask, s.again
	}
	return ask, later(s.again, s.until)
}

// away is the next call to an endpoint that should not have the name.
func away(s state, w Want) call {
	if s.seen == absent || s.seen == unseen && w.Recorded == "" {
		return none // what was never recorded was never loaded
	}
	return drop(s) // whether or not it is there: asking first would take as long
}

// drop takes the name from an endpoint. One that refused to drop it may not have it.
func drop(s state) call {
	if s.denied {
		return ask
	}
	return unload
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
func swaps(c call, s state, w Want) bool {
	return c == unload && s.seen == present && (w.URI != "" || w.Costs)
}

// held is the state of a target that is left alone.
func held(s state) state {
	return state{busy: s.busy, called: s.called, maybe: s.maybe, until: s.until}
}

// answer is how a call ended. For ask, found tells whether the name was among the adapters, and listed whether the endpoint
// tells at all what it has.
type answer struct {
	err           error
	found, listed bool
}

// learn is the state after a call.
func learn(s state, w Want, c call, a answer, now time.Time) state {
	s.busy = none
	switch {
	case a.err != nil:
		return s.failed(w, c, a.err, now)
	case c == ask:
		return s.asked(w, a, now)
	case c == load:
		s.seen, s.uri, s.refusals = present, w.URI, 0
	case c == unload:
		s.seen, s.uri, s.denied, s.denials = absent, "", false, 0
	}
	s.called, s.maybe = true, ""
	return s.well()
}

// well is a state in which nothing is wrong.
func (s state) well() state {
	s.tries, s.again, s.problem = 0, time.Time{}, ""
	return s
}

// wished is the state after another wish. What failed was for the one before.
func (s state) wished() state {
	s.refusals, s.denials = 0, 0
	return s.well()
}

// failed is the state after a call that failed.
func (s state) failed(w Want, c call, err error, now time.Time) state {
	s.tries++
	s.again = now.Add(pause(s.tries))
	if kept, ok := errors.AsType[*notMade](err); ok {
		if !errors.Is(kept.error, ErrElsewhere) {
			s.problem = kept.Error()
		}
		return s // nothing was asked
	}
	s.problem = err.Error()
	doubtful := lora.IsDoubtful(err)
	switch {
	case c == load && doubtful:
		s.seen, s.called, s.maybe = unseen, true, ""
		if lora.IsUnanswered(err) {
			s.maybe, s.until = w.URI, now.Add(afterwards)
		}
	case c == load:
		s.refusals++
		s.maybe = "" // that was waited for
	case c == unload && doubtful:
		s.seen = unseen
	case c == unload && s.blind && s.denials+1 >= believedAfter:
		s.seen, s.uri, s.denials, s.called, s.maybe = absent, "", 0, true, ""
		return s.well()
	case c == unload:
		s.denied = !s.blind
		s.denials++
	}
	return s
}

// asked is the state of an endpoint that said what it has, or that it does not say so. Pauses stay as long as they are unless all
// is as it should be: to be asked is no achievement.
func (s state) asked(w Want, a answer, now time.Time) state {
	first := !s.called
	s.denied, s.blind, s.called = false, !a.listed, true
	switch {
	case a.found:
		s.seen, s.uri, s.maybe = present, w.Recorded, ""
	case !a.listed && w.Recorded == "" && s.maybe == "":
		s.seen, s.uri = absent, "" // what was never recorded was never loaded
	case !a.listed:
		s.seen = unseen
	default:
		s.seen, s.uri = absent, ""
		if !now.Before(s.until) {
			s.maybe = ""
		}
		if first && w.Recorded != "" && w.Recorded != w.URI {
			// Whoever was here before may have asked for it a moment ago.
			s.maybe, s.until = w.Recorded, now.Add(afterwards)
		}
	}
	if s.maybe != "" && s.maybe == w.URI {
		s.tries++
		s.again = now.Add(pause(s.tries)) // it may come any moment
	}
	if c, _ := next(s, w); c == none {
		return s.well()
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
	free, turn := atOnce, !anyBare(entries)
	for _, e := range entries {
		if e.state.busy != none {
			free--
		}
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

// anyBare tells whether an endpoint that should have the adapter may have none of its names. One that is left alone counts if it
// was given what is wanted now: that may be what ails it.
func anyBare(entries []*entry) bool {
	type place struct {
		pod      types.UID
		restarts int32
	}
	should, has := map[place]bool{}, map[place]bool{}
	for _, e := range entries {
		at := place{e.want.Pod, e.want.Restarts}
		if e.want.URI != "" && (!e.want.Hold || e.want.Recorded == e.want.URI) {
			should[at] = true
		}
		if !e.want.Hold && e.state.seen == present && e.state.busy != unload {
			has[at] = true
		}
	}
	for at := range should {
		if !has[at] {
			return true
		}
	}
	return false
}

func (e *entry) report() Report {
	s, w := e.state, e.want
	c, _ := next(s, w)
	r := Report{
		Loaded: s.seen == present, Problem: s.problem,
		// While something is loaded, or may be, what is recorded of it has to stay.
		Absent: s.seen == absent && s.busy != load && s.maybe == "",
		Stuck:  s.seen == absent && s.refusals >= stuckAfter,
		Waits:  s.busy == none && swaps(c, s, w) && s.problem == "",
	}
	if r.Loaded {
		r.URI = s.uri
	}
	r.Settled = !w.Hold && s.busy == none && c == none && r.Loaded == (w.URI != "")
	if r.Settled {
		r.Problem = ""
	}
	r.Unsure = !w.Hold && s.seen == unseen && s.problem == "" && w.Recorded != "" && w.Recorded == w.URI
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
