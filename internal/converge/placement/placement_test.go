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

	"github.com/dynamo-operator/dynamo-operator/internal/lora"
)

var (
	refused  = &lora.Error{Code: 200, Text: "refused"}
	timedOut = &lora.Error{Text: "timed out", Doubt: true}
)

// endpoint is a worker of which only the adapter of one name is of interest. Uri is empty while it has none.
type endpoint struct {
	uri string
	// answers are how the coming calls end; afterwards they succeed.
	answers []error
	// says is everything that was asked.
	said []string
}

func (p *endpoint) do(c call, w Want) (bool, error) {
	p.said = append(p.said, c.String())
	var err error
	if len(p.answers) > 0 {
		err, p.answers = p.answers[0], p.answers[1:]
	}
	if err != nil && !lora.IsDoubtful(err) {
		return false, err
	}
	// What is in doubt was done here, which is the case that is easily got wrong.
	switch {
	case c == load && p.uri == "":
		p.uri = w.URI
	case c == unload:
		p.uri = ""
	}
	return p.uri != "", err
}

// round makes the calls that are due, and returns when the next round is. It is zero when there is nothing left to do.
func round(entries []*entry, workers map[Target]*endpoint, now time.Time) time.Time {
	due, wake := plan(entries, now)
	for _, e := range due {
		e.state.busy = next(e.state, e.want)
	}
	for _, e := range due {
		c := e.state.busy
		found, err := workers[e.want.Target].do(c, e.want)
		e.state = learn(e.state, e.want, c, found, err, now)
	}
	if len(due) > 0 {
		return now
	}
	return wake
}

// settle makes calls until none is due.
func settle(t *testing.T, entries []*entry, workers map[Target]*endpoint) {
	t.Helper()
	now := time.Unix(0, 0)
	for range 1000 {
		if now = round(entries, workers, now); now.IsZero() {
			return
		}
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
		"not wanted, and not there":      {endpoint{}, "", "", "unload"},
		"refused once":                   {endpoint{answers: []error{nil, refused}}, "b", "", "list load load"},
		"timed out while loading":        {endpoint{answers: []error{nil, timedOut}}, "b", "", "list load list"},
		"timed out while unloading":      {endpoint{uri: "a", answers: []error{nil, timedOut}}, "b", "a", "list unload list load"},
		"does not tell at first":         {endpoint{uri: "b", answers: []error{timedOut, refused}}, "b", "b", "list list list"},
		"unloading is refused":           {endpoint{uri: "b", answers: []error{refused, timedOut}}, "", "b", "unload unload unload"},
	} {
		target := Target{Pod: "p", Address: "a", Name: "n"}
		w := Want{Target: target, URI: tc.uri, Recorded: tc.recorded}
		e := &entry{want: w, state: start(w)}
		settle(t, []*entry{e}, map[Target]*endpoint{target: &tc.worker})
		if got := strings.Join(tc.worker.said, " "); got != tc.want || tc.worker.uri != tc.uri {
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
		target := Target{Address: fmt.Sprintf("%02d", i), Name: "n"}
		w := Want{Target: target, URI: "new", Recorded: "old"}
		entries = append(entries, &entry{want: w, state: start(w)})
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
			t.Errorf("%s has %q", target.Address, w.uri)
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
	w := Want{Target: Target{Address: "a"}, URI: "b"}
	e := &entry{want: w, state: start(w)}
	now, calls := time.Unix(0, 0), 0
	for now.Before(time.Unix(600, 0)) {
		due, wake := plan([]*entry{e}, now)
		for range due {
			c := next(e.state, e.want)
			var err error
			if c == load {
				calls++
				err = timedOut
			}
			e.state = learn(e.state, w, c, false, err, now)
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
		w := Want{Target: Target{Address: fmt.Sprintf("%02d", i)}, URI: "b"}
		entries = append(entries, &entry{want: w, state: start(w)})
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
	e := &entry{want: Want{Target: target, URI: "b", Hold: true}, state: held(state{seen: present, uri: "b"})}
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
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		pick := func(from ...string) string { return from[random.IntN(len(from))] }
		var entries []*entry
		workers := map[Target]*endpoint{}
		for i := range 1 + random.IntN(6) {
			has := pick("", "old", "new")
			w := Want{Target: Target{Address: fmt.Sprint(i)}, URI: pick("", "new"), Recorded: pick("", has)}
			worker := &endpoint{uri: has}
			for range random.IntN(12) {
				worker.answers = append(worker.answers, []error{nil, refused, timedOut, errors.New("some other error")}[random.IntN(4)])
			}
			entries, workers[w.Target] = append(entries, &entry{want: w, state: start(w)}), worker
		}
		settle(t, entries, workers)
		for _, e := range entries {
			if got := workers[e.want.Target].uri; got != e.want.URI || !e.report().Settled {
				t.Errorf("seed %d: endpoint %s has %q, want %q; reported as %+v", seed, e.want.Address, got, e.want.URI, e.report())
			}
		}
	}
}
