// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/lora"
)

// Ways in which calls end: not done; done without an answer; done some time later; not done, and without an answer; done, but said
// to have failed; failed, and said so in a way that leaves doubt.
var (
	refused  = &lora.Error{Code: 200, Text: "refused"}
	timedOut = &lora.Error{Text: "timed out", Doubt: true}
	late     = &lora.Error{Text: "late", Doubt: true}
	lost     = &lora.Error{Text: "lost", Doubt: true}
	halfway  = &lora.Error{Code: 500, Text: "halfway", Doubt: true}
	broken   = &lora.Error{Code: 500, Text: "broken", Doubt: true}
)

// endpoint is a worker of which only the adapter of one name is of interest. Uri is empty while it has none.
type endpoint struct {
	uri string
	// answers are how the coming calls end; afterwards they succeed.
	answers []error
	// said is everything that was asked.
	said []string
	// silent endpoints do not tell what they have.
	silent bool
	// coming is a load that nobody waits for any more, and when it is there.
	coming string
	comes  time.Time
}

// arrive lets come what comes late.
func (p *endpoint) arrive(now time.Time) {
	if p.coming != "" && !now.Before(p.comes) {
		if p.uri == "" {
			p.uri = p.coming
		}
		p.coming = ""
	}
}

// do answers a call.
func (p *endpoint) do(c call, w Want, now time.Time) answer {
	p.arrive(now)
	p.said = append(p.said, c.String())
	var err error
	if len(p.answers) > 0 {
		err, p.answers = p.answers[0], p.answers[1:]
	}
	switch c {
	case ask:
		return answer{err: err, found: err == nil && !p.silent && p.uri != "", listed: err == nil && !p.silent}
	case load:
		return answer{err: p.load(err, w.URI, now)}
	}
	return answer{err: p.unload(err)}
}

func (p *endpoint) load(err error, uri string, now time.Time) error {
	switch {
	case errors.Is(err, late):
		p.coming, p.comes = uri, now.Add(afterwards-time.Second)
	case p.uri == "" && isDone(err):
		p.uri = uri
	}
	return err
}

func (p *endpoint) unload(err error) error {
	switch {
	case p.uri == "" && err == nil:
		return refused // as workers do that do not have it
	case p.silent && p.uri != "" && err != nil && !lora.IsDoubtful(err):
		err = nil // one that neither tells nor drops what it has cannot be told from one that has nothing
	}
	if isDone(err) {
		p.uri = ""
	}
	return err
}

// isDone tells whether a call was carried out.
func isDone(err error) bool {
	return err == nil || lora.IsDoubtful(err) && !errors.Is(err, lost) && !errors.Is(err, broken)
}

// round records what is about to be loaded, makes the calls that are due, and returns when the next round is. It is zero when
// there is nothing left to do.
func round(entries []*entry, workers map[Target]*endpoint, now time.Time) time.Time {
	for _, e := range entries {
		if e.want.URI != "" && e.report().Absent {
			e.want.Recorded = e.want.URI
		}
	}
	due, wake := plan(entries, now)
	for _, e := range due {
		e.state.busy, _ = next(e.state, e.want)
	}
	for _, e := range due {
		c := e.state.busy
		e.state = learn(e.state, e.want, c, workers[e.want.Target].do(c, e.want, now), now)
	}
	if len(due) > 0 {
		return now
	}
	return wake
}

// settle makes calls until none is due.
func settle(t *testing.T, entries []*entry, workers map[Target]*endpoint) {
	t.Helper()
	settleFrom(t, entries, workers, time.Unix(0, 0))
}

func settleFrom(t *testing.T, entries []*entry, workers map[Target]*endpoint, now time.Time) {
	t.Helper()
	for range 1000 {
		then := round(entries, workers, now)
		if then.IsZero() {
			for _, w := range workers {
				w.arrive(now.Add(afterwards)) // what nobody reckoned with would come now
			}
			return
		}
		now = then
	}
	t.Fatal("there is no end to the calls")
}

func TestAnEndpointIsCalledNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		worker   endpoint
		uri      string
		recorded string
		want     string
	}{
		"new":                            {endpoint{}, "b", "", "list load"},
		"as recorded":                    {endpoint{uri: "b"}, "b", "b", "list"},
		"recorded, and lost since":       {endpoint{}, "b", "b", "list load"},
		"another source":                 {endpoint{uri: "a"}, "b", "a", "list unload load"},
		"a leftover of nobody knows who": {endpoint{uri: "a"}, "b", "", "list unload load"},
		"not wanted":                     {endpoint{uri: "a"}, "", "a", "unload"},
		"not wanted, and never loaded":   {endpoint{}, "", "", ""},
		"refused once":                   {endpoint{answers: []error{nil, refused}}, "b", "", "list load load"},
		"timed out while loading":        {endpoint{answers: []error{nil, timedOut}}, "b", "", "list load list"},
		"loads slowly":                   {endpoint{answers: []error{nil, late}}, "b", "", "list load list list list list"},
		"a load that half succeeds":      {endpoint{answers: []error{nil, halfway}}, "b", "", "list load list"},
		"a load that fails with doubt":   {endpoint{answers: []error{nil, broken}}, "b", "", "list load list load"},
		"a load that is lost":            {endpoint{answers: []error{nil, lost}}, "b", "", "list load list list list list load"},
		"timed out while unloading":      {endpoint{uri: "a", answers: []error{nil, timedOut}}, "b", "a", "list unload list load"},
		"does not tell at first":         {endpoint{uri: "b", answers: []error{timedOut, refused}}, "b", "b", "list list list"},
		"unloading is refused":           {endpoint{uri: "b", answers: []error{refused}}, "", "b", "unload list unload"},
		"unloading what is not there":    {endpoint{}, "", "b", "unload list list"},
		"does not list":                  {endpoint{silent: true}, "b", "", "list load"},
		"does not list, another source":  {endpoint{uri: "a", silent: true}, "b", "a", "list unload load"},
		"does not list, and has nothing": {endpoint{silent: true}, "b", "a", "list unload unload unload load"},
		"does not list, not wanted":      {endpoint{uri: "b", silent: true}, "", "b", "unload"},
		"does not list, was not there":   {endpoint{silent: true}, "", "b", "unload list unload unload"},
		"cannot list for a while":        {endpoint{answers: []error{refused, refused, refused}}, "b", "", "list list list list load"},
	} {
		target := Target{Pod: "p", Name: "n"}
		e := &entry{want: Want{Target: target, Address: "a", URI: tc.uri, Recorded: tc.recorded}}
		settle(t, []*entry{e}, map[Target]*endpoint{target: &tc.worker})
		if got := strings.Join(tc.worker.said, " "); got != tc.want || tc.worker.uri != tc.uri && !tc.worker.silent {
			t.Errorf("%s: %s, in the end %q; want %s", name, got, tc.worker.uri, tc.want)
		}
		if r := e.report(); !r.Settled || r.Loaded != (tc.uri != "") || r.Problem != "" || r.Waits || r.Unsure {
			t.Errorf("%s: reported as %+v", name, r)
		}
	}
}

// fleet are endpoints with an adapter from one source that is to come from another.
func fleet(n int, answers ...error) ([]*entry, map[Target]*endpoint) {
	var entries []*entry
	workers := map[Target]*endpoint{}
	for i := range n {
		target := Target{Pod: types.UID(fmt.Sprintf("%02d", i)), Name: "n"}
		entries = append(entries, &entry{want: Want{Target: target, Address: string(target.Pod), URI: "new", Recorded: "old"}})
		workers[target] = &endpoint{uri: "old", answers: slices.Clone(answers)}
	}
	return entries, workers
}

func TestASourceIsChangedOneEndpointAfterAnother(t *testing.T) {
	t.Parallel()
	entries, workers := fleet(20)
	for now := time.Unix(0, 0); !now.IsZero(); now = round(entries, workers, now) {
		without := 0
		for _, w := range workers {
			if w.uri == "" {
				without++
			}
		}
		if without > 1 {
			t.Fatalf("%d endpoints are without the adapter at once", without)
		}
	}
	for target, w := range workers {
		if w.uri != "new" {
			t.Errorf("%s has %q", target.Pod, w.uri)
		}
	}
}

func TestASourceThatCannotBeLoadedTakesTheAdapterFromOneEndpointOnly(t *testing.T) {
	t.Parallel()
	entries, workers := fleet(5)
	failing := slices.Repeat([]error{refused}, 50)
	for _, w := range workers {
		w.answers = append([]error{nil, nil}, failing...) // asked and unloaded
	}
	now := time.Unix(0, 0)
	for range 40 {
		now = round(entries, workers, now)
	}
	kept := 0
	for _, e := range entries {
		if workers[e.want.Target].uri == "old" {
			kept++
			if r := e.report(); !r.Waits || r.Settled || r.URI != "old" {
				t.Errorf("reported as %+v", r)
			}
		}
	}
	if kept != 4 {
		t.Errorf("%d of 5 endpoints kept what they had, want 4", kept)
	}
	// The one that fails is not called all the time.
	if calls := len(workers[entries[0].want.Target].said); now.Sub(time.Unix(0, 0)) < 5*time.Minute || calls > 25 {
		t.Errorf("%d calls in %s", calls, now.Sub(time.Unix(0, 0)))
	}
}

func TestAWishThatChangesInTheMiddleOfAReplacementIsFollowed(t *testing.T) {
	t.Parallel()
	entries, workers := fleet(3, nil, nil, timedOut) // asked and unloaded; the load is carried out without an answer
	now := time.Unix(0, 0)
	for range 3 {
		now = round(entries, workers, now)
	}
	for _, e := range entries {
		e.want.URI = "newer"
	}
	settle(t, entries, workers)
	for _, e := range entries {
		if got := workers[e.want.Target].uri; got != "newer" || !e.report().Settled {
			t.Errorf("endpoint %s has %q, reported as %+v", e.want.Address, got, e.report())
		}
	}
}

func TestPausesGrowAlsoWhereEveryCallHasToBeCheckedAfterwards(t *testing.T) {
	t.Parallel()
	w := Want{Target: Target{Pod: "a"}, URI: "b", Recorded: "b"}
	e := &entry{want: w}
	now, calls := time.Unix(0, 0), 0
	for now.Before(time.Unix(600, 0)) {
		due, wake := plan([]*entry{e}, now)
		for range due {
			c, _ := next(e.state, e.want)
			a := answer{listed: true}
			if c == load {
				calls++
				a.err = timedOut
			}
			e.state = learn(e.state, w, c, a, now)
			if calls > 0 && e.report().Problem == "" {
				t.Fatal("the reason comes and goes")
			}
		}
		if len(due) == 0 {
			now = wake
		}
	}
	if calls > 30 {
		t.Errorf("%d loads in ten minutes", calls)
	}
}

func TestNoMoreThanTenEndpointsAreCalledAtOnce(t *testing.T) {
	t.Parallel()
	var entries []*entry
	for i := range 25 {
		entries = append(entries, &entry{want: Want{Target: Target{Pod: types.UID(fmt.Sprint(i))}, URI: "b"}})
	}
	due, _ := plan(entries, time.Unix(0, 0))
	for _, e := range due {
		e.state.busy = ask
	}
	more, _ := plan(entries, time.Unix(0, 0))
	if len(due) != 10 || len(more) != 0 {
		t.Errorf("%d and then %d calls", len(due), len(more))
	}
}

func TestAnEndpointThatIsHeldIsLeftAloneAndAskedAfterwards(t *testing.T) {
	t.Parallel()
	target := Target{Pod: "p"}
	worker := &endpoint{uri: "b"}
	e := &entry{want: Want{Target: target, URI: "b", Recorded: "b", Hold: true}, state: held(state{seen: present, uri: "b"})}
	settle(t, []*entry{e}, map[Target]*endpoint{target: worker})
	if len(worker.said) != 0 || e.report().Settled {
		t.Errorf("while held: %v, %+v", worker.said, e.report())
	}
	e.want.Hold = false
	settle(t, []*entry{e}, map[Target]*endpoint{target: worker})
	if diff := cmp.Diff([]string{"list"}, worker.said); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

func TestPausesDoubleUpToABound(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	for tries := range 8 {
		got = append(got, pause(tries+1)/time.Second)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 4, 8, 16, 30, 30, 30}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhateverGoesWrongEndpointsEndAsWanted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		var entries []*entry
		workers := map[Target]*endpoint{}
		for i := range 1 + random.IntN(6) {
			has := pick("", "old", "new")
			w := Want{Target: Target{Pod: types.UID(fmt.Sprint(i))}, Address: fmt.Sprint(i), URI: pick("", "new"), Recorded: has}
			worker := &endpoint{uri: has, silent: random.IntN(4) == 0}
			for range random.IntN(12) {
				worker.answers = append(worker.answers, []error{nil, refused, timedOut, late, lost, halfway, broken, errors.New("some other error")}[random.IntN(8)])
			}
			entries, workers[w.Target] = append(entries, &entry{want: w}), worker
		}
		now := time.Unix(0, 0)
		for range random.IntN(20) { // and then all wish for something else, or are left alone for a moment
			then := round(entries, workers, now)
			if then.IsZero() {
				break
			}
			now = then
		}
		wish := pick("new", "newer", "")
		for _, e := range entries {
			if e.want.URI != wish {
				e.want.URI, e.state = wish, e.state.wished()
			}
			if random.IntN(4) == 0 {
				e.state = held(e.state)
			}
		}
		settleFrom(t, entries, workers, now)
		for _, e := range entries {
			if got := workers[e.want.Target].uri; got != e.want.URI || !e.report().Settled {
				t.Errorf("seed %d: endpoint %s has %q, want %q; reported as %+v", seed, e.want.Address, got, e.want.URI, e.report())
			}
		}
	}
}

func TestAnAdapterThatComesLateDoesNotStay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		uri, want string
		silent    bool
	}{
		"deleted meanwhile":             {"", "list unload", false},
		"changed in the middle":         {"newer", "list unload load", false},
		"deleted, and nobody tells":     {"", "unload", true},
		"changed, and nobody tells":     {"newer", "unload load", true},
		"it is what is wanted, at last": {"new", "list list list list", false},
	} {
		now := time.Unix(0, 0)
		w := Want{Target: Target{Pod: "a"}, URI: "new", Recorded: "new"}
		worker := &endpoint{coming: "new", comes: now.Add(afterwards - time.Second), silent: tc.silent}
		e := &entry{want: w, state: state{seen: absent, blind: tc.silent, called: true}}
		e.state = learn(e.state, w, load, answer{err: timedOut}, now) // nobody knows whether it is still under way
		e.want.URI = tc.uri
		if tc.uri != w.URI {
			e.state = e.state.wished()
		}
		settle(t, []*entry{e}, map[Target]*endpoint{w.Target: worker})
		if got := strings.Join(worker.said, " "); got != tc.want || worker.uri != tc.uri {
			t.Errorf("%s: %s, in the end %q", name, got, worker.uri)
		}
	}
}

func TestWhatSomebodyBeforeUsMayHaveAskedForIsWaitedFor(t *testing.T) {
	t.Parallel()
	target := Target{Pod: "a"}
	worker := &endpoint{coming: "old", comes: time.Unix(10, 0)}
	e := &entry{want: Want{Target: target, URI: "new", Recorded: "old"}}
	settle(t, []*entry{e}, map[Target]*endpoint{target: worker})
	if worker.uri != "new" || e.want.Recorded != "new" {
		t.Errorf("it has %q, recorded as %q, after %v", worker.uri, e.want.Recorded, worker.said)
	}
}

func TestWhatIsRecordedStaysWhileItMayBeLoaded(t *testing.T) {
	t.Parallel()
	w := Want{Target: Target{Pod: "a"}, URI: "b", Recorded: "b"}
	loading := &entry{want: w, state: state{seen: absent, busy: load}}
	doubtful := &entry{want: w, state: learn(state{seen: absent, busy: load}, w, load, answer{err: timedOut}, time.Unix(0, 0))}
	asked := &entry{want: w, state: learn(doubtful.state, w, ask, answer{listed: true}, time.Unix(1, 0))}
	for name, e := range map[string]*entry{"under way": loading, "without an answer": doubtful, "asked for too early": asked} {
		if e.report().Absent {
			t.Errorf("%s: taken for absent", name)
		}
	}
	over := &entry{want: w, state: learn(asked.state, w, ask, answer{listed: true}, time.Unix(0, 0).Add(afterwards))}
	if !over.report().Absent {
		t.Error("it never comes, and is waited for")
	}
}

func TestAnEndpointIsStuckByRefusedLoadsOnly(t *testing.T) {
	t.Parallel()
	w := Want{Target: Target{Pod: "a"}, URI: "b", Recorded: "b"}
	for name, tc := range map[string]struct {
		call call
		err  error
		want bool
	}{
		"refused":           {load, refused, true},
		"no answer":         {load, timedOut, false},
		"does not tell":     {ask, refused, false},
		"somebody else's":   {load, &notMade{ErrElsewhere}, false},
		"nothing to unload": {unload, refused, false},
	} {
		e := &entry{want: w, state: state{seen: absent}}
		for range stuckAfter {
			e.state = learn(e.state, w, tc.call, answer{err: tc.err}, time.Unix(0, 0))
		}
		if got := e.report().Stuck; got != tc.want {
			t.Errorf("%s: stuck is %t", name, got)
		}
	}
}

func TestANameGoesFromOneEndpointAfterAnotherWhereThatCosts(t *testing.T) {
	t.Parallel()
	var entries []*entry
	for i := range 3 {
		pod := types.UID(fmt.Sprint(i))
		entries = append(entries,
			&entry{want: Want{Target: Target{Pod: pod, Name: "new"}, URI: "u", Recorded: "u"}, state: state{seen: absent, again: time.Unix(9, 0)}},
			&entry{want: Want{Target: Target{Pod: pod, Name: "old"}, Recorded: "u", Costs: true}, state: state{seen: present, uri: "u"}})
	}
	due, _ := plan(entries, time.Unix(0, 0))
	if len(due) != 1 {
		t.Fatalf("%d endpoints lose their only name at once", len(due))
	}
	due[0].state = state{seen: absent}
	if more, _ := plan(entries, time.Unix(0, 0)); len(more) != 0 {
		t.Errorf("%d more lose it before that one has another", len(more))
	}
}
