// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
)

const day = 24 * time.Hour

// How long certificates of the tests live.
const (
	authorityLife = 365 * day
	leafLife      = 7 * day
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// numbered makes authorities that are called ca1, ca2 and so on.
func numbered() Policy {
	made := 0
	p := Policy{AuthorityLife: 360 * day, LeafLife: 6 * day, Settle: 10 * time.Second}
	p.Make = func(now time.Time) (Authority, error) {
		made++
		return Authority{Certificate: fmt.Sprintf("ca%d", made), Key: "key", Created: now, Expires: now.Add(p.AuthorityLife)}, nil
	}
	return p
}

// text is a state in one line.
func text(s State) string {
	var all []string
	for _, a := range s.Authorities {
		line := fmt.Sprintf("%s %s", a.Phase, a.Certificate)
		if !a.Published.IsZero() {
			line += " published"
		}
		if a.Key == "" {
			line += " keyless"
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

// everywhere and nowhere are answers to whether a certificate is published.
func everywhere(string) bool { return true }
func nowhere(string) bool    { return false }

func TestTheLifeOfAuthorities(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	p := numbered()
	var s State
	for _, step := range []struct {
		what  string
		after time.Duration
		facts Facts
		want  string
		// wake is when the next step is due, counted from now.
		wake    time.Duration
		rotated bool
	}{
		{"the first one signs at once", 0, Facts{Published: nowhere}, "signing ca1", 240 * day, true},
		{"it was read back", time.Second, Facts{Published: everywhere}, "signing ca1 published", 10 * time.Second, false},
		{"nothing is due", time.Hour, Facts{Published: everywhere}, "signing ca1 published", 240*day - time.Hour - time.Second, false},
		{
			"two thirds have passed", 240 * day, Facts{Published: func(c string) bool { return c == "ca1" }},
			"signing ca1 published, next ca2", 120*day - time.Hour - time.Second, false,
		},
		{"nobody has it yet", time.Hour, Facts{Published: nowhere}, "signing ca1 published, next ca2", 120*day - 2*time.Hour - time.Second, false},
		{"everybody has it", time.Hour, Facts{Published: everywhere}, "signing ca1 published, next ca2 published", 10 * time.Second, false},
		{"not everybody has noticed", 9 * time.Second, Facts{Published: everywhere}, "signing ca1 published, next ca2 published", time.Second, false},
		{"all have noticed", time.Second, Facts{Published: everywhere}, "retired ca1 published keyless, signing ca2 published", 6*day + 10*time.Second, true},
		{"leaves of the old one live", 6 * day, Facts{Published: everywhere}, "retired ca1 published keyless, signing ca2 published", 10 * time.Second, false},
		{"they do no longer", 10 * time.Second, Facts{Published: everywhere}, "signing ca2 published", 234*day - 2*time.Hour - 20*time.Second, false},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		plan, err := p.Next(s, clock.Now(), step.facts)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if diff := cmp.Diff(step.want, text(plan.State)); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.what, diff)
		}
		if got := plan.Wake.Sub(clock.Now()); got != step.wake || plan.Rotated != step.rotated {
			t.Errorf("%s: wakes after %s, rotated %t; want %s, %t", step.what, got, plan.Rotated, step.wake, step.rotated)
		}
		s = plan.State
	}
}

// made is an authority of some age.
func made(phase Phase, name string, age time.Duration) Authority {
	a := Authority{Phase: phase, Certificate: name, Key: "key", Created: start.Add(-age), Expires: start.Add(360*day - age)}
	switch phase {
	case Signing:
		a.Published = a.Created
	case Retired:
		a.Key, a.Until = "", start.Add(day)
	case Next:
	}
	return a
}

func TestOneStep(t *testing.T) {
	t.Parallel()
	established := made(Next, "n", time.Minute)
	established.Published = start.Add(-time.Minute)
	for name, c := range map[string]struct {
		state   []Authority
		facts   Facts
		want    string
		rotated bool
	}{
		"asked for": {
			[]Authority{made(Signing, "s", day)}, Facts{Rotate: true, Published: everywhere}, "signing s published, next ca1", false,
		},
		"asked for while it goes on": {
			[]Authority{made(Signing, "s", day), made(Next, "n", 0)}, Facts{Rotate: true, Published: nowhere}, "signing s published, next n", false,
		},
		"asked for and just done": {
			[]Authority{made(Signing, "s", day), established}, Facts{Rotate: true, Published: everywhere},
			"retired s published keyless, signing n published", true,
		},
		"asked for where there is none": {nil, Facts{Rotate: true, Published: nowhere}, "signing ca1", true},
		"the operator was off for more than a year": {
			[]Authority{made(Signing, "s", 361*day)}, Facts{Published: everywhere}, "signing ca1 published", true,
		},
		"off while the next one waited": {
			[]Authority{made(Signing, "s", 361*day), made(Next, "n", day)}, Facts{Published: nowhere}, "signing n", true,
		},
		"lost, and others may be alive": {
			nil, Facts{Published: nowhere, Found: []Authority{made(Retired, "x", day), made(Retired, "old", 400*day)}}, "signing ca1, retired x keyless", true,
		},
		"found what is known": {
			[]Authority{made(Signing, "s", day)}, Facts{Published: everywhere, Found: []Authority{made(Retired, "x", day)}}, "signing s published", false,
		},
		"a retired one that waits": {
			[]Authority{made(Signing, "s", day), made(Retired, "r", 200*day)}, Facts{Published: everywhere}, "signing s published, retired r keyless", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := numbered().Next(State{c.state}, start, c.facts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, text(plan.State)); diff != "" || plan.Rotated != c.rotated {
				t.Errorf("rotated %t, want %t (-want +got):\n%s", plan.Rotated, c.rotated, diff)
			}
			again, err := numbered().Next(plan.State, start, Facts{Published: nowhere})
			if err != nil || !again.State.Equal(plan.State) {
				t.Errorf("the same step a second time leads to %s, %v", text(again.State), err)
			}
		})
	}
}

func TestAShorterLifeCountsForAuthoritiesThatExist(t *testing.T) {
	t.Parallel()
	p := numbered()
	plan, err := p.Next(State{}, start, Facts{Published: nowhere})
	if err != nil {
		t.Fatal(err)
	}
	p.AuthorityLife = 30 * day
	plan, err = p.Next(plan.State, start.Add(20*day), Facts{Published: nowhere})
	if err != nil || text(plan.State) != "signing ca1, next ca2" {
		t.Errorf("got %s, %v", text(plan.State), err)
	}
}

func TestOnlySoManyAuthoritiesOfOthersAreKept(t *testing.T) {
	t.Parallel()
	var public []Authority
	for i := range 150 {
		public = append(public, Authority{Certificate: fmt.Sprint(i), Expires: start.Add(day)})
	}
	plan, err := numbered().Next(State{}, start, Facts{Published: nowhere, Found: public})
	if err != nil || len(plan.State.Authorities) != 1+mostAdopted {
		t.Errorf("got %d authorities, %v", len(plan.State.Authorities), err)
	}
}

func TestWhatCannotBeMadeIsAnError(t *testing.T) {
	t.Parallel()
	p := numbered()
	p.Make = func(time.Time) (Authority, error) { return Authority{}, errors.New("no entropy") }
	if _, err := p.Next(State{}, start, Facts{Published: nowhere}); err == nil {
		t.Error("no error for the first")
	}
	s := State{[]Authority{{Phase: Signing, Certificate: "s", Key: "key", Created: start, Expires: start.Add(day)}}}
	if _, err := p.Next(s, start, Facts{Published: nowhere, Rotate: true}); err == nil {
		t.Error("no error for the next")
	}
}

func TestALeafIsCoveredUntilItsEnd(t *testing.T) {
	t.Parallel()
	signing := Authority{Phase: Signing, Certificate: "s", Key: "key"}
	retired := Authority{Phase: Retired, Certificate: "r", Until: start.Add(day)}
	for name, c := range map[string]struct {
		issuer string
		end    time.Duration
		want   string
	}{
		"by the one that signs":         {"s", 2 * day, "s 0s, r 24h0m0s"},
		"by one that is kept long":      {"r", time.Hour, "s 0s, r 24h0m0s"},
		"by one that is kept too short": {"r", 2 * day, "s 0s, r 48h0m0s"},
		"by one that was lost":          {"x", 2 * day, "s 0s, r 24h0m0s, x 48h0m0s"},
		"and not longer":                {"x", 0, "s 0s, r 24h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := State{[]Authority{signing, retired}}
			covered := before.Cover(c.issuer, start.Add(c.end), start)
			var got []string
			for _, a := range covered.Authorities {
				until := time.Duration(0)
				if a.Phase == Retired {
					until = a.Until.Sub(start)
				}
				got = append(got, fmt.Sprintf("%s %s", a.Certificate, until))
			}
			if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !before.Equal(State{[]Authority{signing, retired}}) {
				t.Error("the state it was asked of has changed")
			}
		})
	}
}

// TestNoLeafIsEverUntrusted lets three replicas with clocks of their own take steps in any order, on a Secret and a
// configuration that are lost, restored and emptied. Whatever happens, the configuration carries the authority of every
// leaf, unless somebody has just emptied it or brought a backup back; and a leaf that works is given up only for one whose authority was there
// before, so that API servers that learn of it late miss nothing.
func TestNoLeafIsEverUntrusted(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		w := &fleet{policy: numbered(), random: rand.New(rand.NewPCG(seed, 1)), now: start, since: map[string]time.Time{}}
		for range 3 {
			w.replicas = append(w.replicas, &replica{skew: time.Duration(w.random.IntN(8)-4) * time.Second})
		}
		for step := range 400 {
			if problem := w.step(); problem != "" {
				t.Fatalf("seed %d, step %d: %s\nstored: %s\npublished: %v", seed, step, problem, text(w.stored), w.bundle)
			}
		}
	}
}

type replica struct {
	skew   time.Duration
	state  State
	issuer string
	renew  time.Time
	end    time.Time
}

// fleet is a world of replicas, one Secret and one configuration.
type fleet struct {
	policy   Policy
	random   *rand.Rand
	now      time.Time
	stored   State
	bundle   []string
	replicas []*replica
	history  []State
	// since is when an authority was first in the bundle.
	since map[string]time.Time
}

func (w *fleet) step() string {
	w.now = w.now.Add(time.Duration(w.random.Int64N(int64(3 * day))))
	tampered := w.tamper()
	// Every change is an event for all of them; they come in any order, and more than once.
	for range 3 {
		for _, i := range w.random.Perm(len(w.replicas)) {
			if problem := w.pass(w.replicas[i]); problem != "" {
				return problem
			}
			if tampered {
				continue
			}
			for _, r := range w.replicas {
				if w.now.Add(r.skew).Before(r.end) && !slices.Contains(w.bundle, r.issuer) {
					return fmt.Sprintf("a leaf of %s is not trusted", r.issuer)
				}
			}
		}
		tampered = false
		w.now = w.now.Add(time.Duration(w.random.IntN(12)) * time.Second)
	}
	return ""
}

// tamper does what people and other programs do, sometimes several things at once. It tells whether that can be seen from
// outside until every replica has had its turn.
func (w *fleet) tamper() bool {
	visible := false
	often := func() bool { return w.random.IntN(8) == 0 }
	if often() {
		w.stored = State{}
	}
	if often() && len(w.history) > 0 {
		w.stored = w.history[max(0, len(w.history)-1-w.random.IntN(20))] // a backup comes back
		visible = true
	}
	if often() { // one that knows nothing takes another's place
		w.replicas[w.random.IntN(len(w.replicas))] = &replica{}
	}
	if often() {
		w.bundle = nil
		visible = true
	}
	return visible
}

// pass is what a Keeper does, on values.
func (w *fleet) pass(r *replica) string {
	now := w.now.Add(r.skew)
	base := r.state
	if len(w.stored.Authorities) > 0 {
		base = w.stored
	}
	if r.issuer != "" {
		base = base.Cover(r.issuer, r.end, now)
	}
	facts := Facts{Rotate: w.random.IntN(20) == 0, Published: func(c string) bool { return slices.Contains(w.bundle, c) }}
	for _, c := range w.bundle {
		facts.Found = append(facts.Found, Authority{Certificate: c, Expires: now.Add(100 * day)})
	}
	plan, err := w.policy.Next(base, now, facts)
	if err != nil {
		return err.Error()
	}
	w.stored, r.state = plan.State, plan.State
	w.history = append(w.history, plan.State)
	w.bundle = nil
	for _, a := range plan.State.Authorities {
		w.bundle = append(w.bundle, a.Certificate)
		if _, known := w.since[a.Certificate]; !known {
			w.since[a.Certificate] = w.now
		}
	}
	return w.show(r, now)
}

// show replaces the leaf of a replica where a Keeper would.
func (w *fleet) show(r *replica, now time.Time) string {
	signing := *r.state.in(Signing)
	k := &Keeper{policy: w.policy, state: r.state}
	works := false
	if r.issuer != "" {
		k.leaf = &leaf{issuer: r.issuer, starts: start.Add(-day), renew: r.renew}
		works = !k.leaf.due(now)
	}
	if !k.needsLeaf(signing, now) {
		return ""
	}
	// Clocks are up to seven seconds apart; what is left of the settle time has to have passed.
	if w.now.Sub(w.since[signing.Certificate]) < w.policy.Settle-7*time.Second && works {
		return fmt.Sprintf("a leaf of %s is given up for one of %s, which nobody knows yet", r.issuer, signing.Certificate)
	}
	r.issuer, r.renew, r.end = signing.Certificate, now.Add(w.policy.LeafLife*2/3), now.Add(w.policy.LeafLife)
	return ""
}
