// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// longestPause is how long an operator may wait for an answer that its cache shows late, or before it tries again: pauses after
	// errors grow to four seconds, and further only when errors last for minutes.
	longestPause = 6 * time.Second
	// maxTries is how often a story is told to hit something.
	maxTries = 2
)

// goalOf are the goals that an interruption at a write is for.
var goalOf = map[Kind]string{Crash: "L1", LostRequest: "L2", LostResponse: "L2"}

func TestAnInterruptionAtAnyWriteLosesNothing(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		if *onlyScenario != "" && *onlyScenario != name || *binary != "" && scenarios[name].isOurs() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interruptEverywhere(t, b, name)
		})
	}
}

// interruptEverywhere tells a story without a fault, in a full run twice, which also shows that it always ends the same way, and
// then once for each write and each way to interrupt it.
func interruptEverywhere(t *testing.T, b *bed, name string) {
	t.Helper()
	tellsHow(t, Result{Scenario: name})
	want := b.tell(t, scenarios[name], Fault{}, nil)
	want.always = map[string]bool{}
	for _, write := range want.writes {
		// What was repeated may have been so by chance, which only a second telling shows.
		want.always[write] = comesAlways(write) && (*full || isFirst(write))
	}
	if *full {
		twice := b.tell(t, scenarios[name], Fault{}, &want)
		if diff := want.differs(twice); diff != "" {
			t.Fatalf("the story does not end the same way twice, so it cannot be compared:\n%s", diff)
		}
		for _, write := range want.writes {
			want.always[write] = want.always[write] && slices.Contains(twice.writes, write)
		}
	}
	if len(want.writes) == 0 {
		t.Fatal("the operator wrote nothing, so there is nothing to interrupt")
	}
	t.Logf("%d writes:\n%s", len(want.writes), strings.Join(want.writes, "\n"))
	seen := &coverage{tried: map[string]bool{}}
	for _, kind := range kinds {
		for _, at := range cellsOf(name, kind, want.writes) {
			r := &Result{Goal: goalOf[kind], Scenario: name, Fault: string(kind), At: at}
			if !b.isWanted(t, *r) {
				seen.add(r)
				continue
			}
			t.Run(fmt.Sprintf("%s at %s", kind, strings.ReplaceAll(at, "/", " ")), func(t *testing.T) {
				t.Parallel()
				b.record(t, r)
				b.interrupt(t, want, Fault{Kind: kind, At: at}, r)
				seen.add(r)
			})
		}
	}
	if *full && !isSelective() {
		t.Cleanup(func() { seen.check(t, want) })
	}
}

// comesAlways tells whether a write comes whenever its story is told. What a status says on the way, and whether there is time to say
// it, depends on who is faster. So does whether a deletion has to be repeated, because it named a version that was no longer the last.
func comesAlways(write string) bool {
	again := strings.HasPrefix(write, http.MethodDelete) && !isFirst(write)
	return !again && !strings.HasSuffix(alike(write), "/status")
}

func isFirst(write string) bool { return strings.HasSuffix(write, " #1") }

// kinds are the ways in which a write is interrupted.
var kinds = []Kind{Crash, LostRequest, LostResponse}

// cellsOf are the writes of a story at which a kind of fault is tried: all of them in a full run, and otherwise one write of a story in
// one way. Which differs from story to story, so that all sorts of writes are hit in some story.
func cellsOf(story string, kind Kind, writes []string) []string {
	switch {
	case *onlyAt != "" && *onlyScenario != "":
		return []string{*onlyAt} // it may be one that comes only now and then
	case *full || isSelective():
		return writes
	}
	turn := digest(story)
	if kinds[turn%uint32(len(kinds))] != kind { //nolint:gosec // a short list
		return nil
	}
	return writes[turn%uint32(len(writes)):][:1] //nolint:gosec // a short list
}

// coverage is which writes of a story were interrupted.
type coverage struct {
	mu    sync.Mutex
	tried map[string]bool
}

// add notes a run that came to its end, or that is left to another part of a full run, or was in an earlier one.
func (c *coverage) add(r *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried[r.Fault+" at "+r.At] = true
}

// check demands that each write of the undisturbed story was tried in every way.
func (c *coverage) check(t *testing.T, want ending) {
	t.Helper()
	for _, kind := range kinds {
		for _, write := range want.writes {
			if !c.tried[string(kind)+" at "+write] {
				t.Errorf("no %s at %s", kind, write)
			}
		}
	}
}

// interrupt tells a story with a fault and compares how it ends. A write that does not come this time is waited for in another run.
// A status may not be written again at all; then nothing is injected, and nothing is counted.
func (b *bed) interrupt(t *testing.T, want ending, f Fault, r *Result) {
	t.Helper()
	for range maxTries {
		got := b.tell(t, scenarios[r.Scenario], f, &want)
		if diff := want.differs(got); diff != "" {
			t.Fatalf("(-undisturbed +interrupted):\n%s\nhit: %v\nwrites of the interrupted operator:\n%s", diff, got.hit,
				strings.Join(got.writes, "\n"))
		}
		if len(got.hit) > 0 {
			r.Faults = len(got.hit)
			return
		}
	}
	if want.always[f.At] || *onlyAt != "" {
		t.Fatalf("%s did not come in %d runs", f.At, maxTries)
	}
	t.Logf("%s did not come in %d runs", f.At, maxTries)
	r.Absent = true
}

// ending is how a story ended.
type ending struct {
	world Snapshot
	// lives tell how often each object came and went.
	lives map[string]Lives
	// identities are the UIDs of what is there, where they are compared.
	identities map[string]types.UID

	writes []string
	hit    []string
	// always are the writes that come whenever the story is told.
	always map[string]bool
}

func (e ending) differs(other ending) string {
	return cmp.Diff(e.world, other.world) + cmp.Diff(e.lives, other.lives)
}

// tell tells a story once, with an operator that meets the fault and, if that is its end, a fresh one after it. Where it is known
// how the story should end, a pause on the way is not taken for the end.
func (b *bed) tell(t *testing.T, s scenario, f Fault, want *ending) ending {
	t.Helper()
	ns := harness.Namespace(t)
	t.Cleanup(func() { b.diary.Forget(ns) })
	s.simulate(t, ns)
	etcd := startEtcd(t, s, ns)
	workers := startCrew(t, s, ns)
	flags := append(etcd.flags(), s.flagsIn(ns)...)
	wire := NewWire(s.apis...)
	victim := launchWith(t, ns, wire, workers.reach(t, wire), flags...)
	if s.before != nil {
		s.before(t, ns)
		b.rest(t, ns, wire)
	}
	if s.upgrade == nil {
		wire.Arm(f)
		s.during(t, ns)
	} else {
		victim.Stop()
		wire = NewWire(s.apis...)
		wire.Arm(f)
		s.during(t, ns)
		flags = append(flags, s.upgrade...)
		victim = launchWith(t, ns, wire, workers.reach(t, wire), flags...)
	}
	second, survivor := wire, victim
	if f.Kind == Crash && crashes(wire) {
		victim.Kill()
		leavesNothing(victim)
		second = NewWire(s.apis...)
		survivor = launchWith(t, ns, second, workers.reach(t, second), flags...)
	}
	s.ended(t, ns)
	look := func(rest func(*testing.T, string, ...*Wire) Snapshot) ending {
		return ending{world: workers.addTo(etcd.addTo(rest(t, ns, second))), lives: b.lives(ns), writes: wire.Writes(), hit: wire.Fired()}
	}
	got := look(b.rest)
	for began := time.Now(); want != nil && want.differs(got) != "" && time.Since(began) < restTimeout && b.moves(ns, second); {
		got = look(b.rest)
	}
	if f.Kind == "" {
		leavesNothing(victim)
		return got
	}
	got = look(b.lastRest) // what was interrupted may be tried again after a pause
	if *binary == "" && digest(f.At)%oneStartIn == 0 {
		survivor.Stop()
		third := NewWire(s.apis...)
		launchWith(t, ns, third, workers.reach(t, third), flags...)
		b.rest(t, ns, third)
		if wrote := third.Writes(); len(wrote) > 0 {
			t.Errorf("the next operator finds something to do, which the one before it did not know of: %v", wrote)
		}
	}
	return got
}

// oneStartIn is how many interrupted runs there are to one after which an operator is started that must have nothing to do: what the one
// before it only had in mind, and hashes that are masked, show there.
const oneStartIn = 4

// moves tells whether something happens within the longest pause that an operator makes while something is left to do.
func (b *bed) moves(ns string, wire *Wire) bool {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	began := time.Now()
	for time.Since(began) < longestPause {
		if b.diary.Moved(ns).After(began) || wire.QuietFor() < time.Since(began) {
			return true
		}
		<-ticker.C
	}
	return false
}

// lives tells how often each object of a namespace came and went, in words that fit every namespace.
func (b *bed) lives(ns string) map[string]Lives {
	_, lives, _ := b.diary.Of(ns)
	masked := map[string]Lives{}
	for key, n := range lives {
		masked[maskText(key, ns)] = n
	}
	return masked
}

// crashes waits for the crash, or until the operator has had nothing to do for so long that nobody waits any more. On a loaded
// machine that may be too early, so the operator is spared from then on.
func crashes(wire *Wire) bool {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for !wire.HasCrashed() && wire.QuietFor() < 3*stillFor {
		<-ticker.C
	}
	wire.Clear()
	return wire.HasCrashed()
}

// TestACrashThatDidNotComeDoesNotComeLater keeps the news from an operator until nobody waits for its crash any more. If it
// crashed after all, nobody would start the next one, and the story would never end.
func TestACrashThatDidNotComeDoesNotComeLater(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	ns, wire := b.begin(t)
	release := wire.Blind(Blindness{Resource: graphs})
	t.Cleanup(release)
	wire.Arm(Fault{Kind: Crash, Nth: 3})
	create(t, builders.TwoComponents(ns, "chat").Obj())
	if crashes(wire) {
		t.Fatal("it crashed at a write, but should not have known what to write")
	}
	release()
	ready(t, ns)
	b.rest(t, ns, wire)
}
