// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// event is something that happens to the world once it has come to pass what it waits for, or to rest when it waits for
// nothing.
type event struct {
	say  string
	when func(*world) bool
	do   func(*world)
}

// scenario is a story about a world.
type scenario struct {
	setup  func(*world)
	events []event
	// meddling stories change whose turn it is while a restart runs. Who was told before is then known from the views
	// alone, so they have to include the viewer's own writes.
	meddling bool
	want     *v1alpha1.RestartStatus
	check    func(*testing.T, *world)
}

// graph is three services of which two have two replicas.
func graph(w *world) {
	w.add("Frontend", 2, 1)
	w.add("Decode", 2, 1)
	w.add("Prefill", 1, 1)
}

func ask(spec *v1alpha1.Restart) event {
	say := fmt.Sprintf("asks for restart %s, %s", spec.ID, spec.Strategy.Type)
	if len(spec.Strategy.Order) > 0 {
		say += fmt.Sprintf(" %v", spec.Strategy.Order)
	}
	return event{say: say, do: func(w *world) { w.spec = spec }}
}

func (e event) once(when func(*world) bool) event {
	e.when = when
	return e
}

func withdraw() event {
	return event{say: "removes the request", do: func(w *world) { w.spec = nil }}
}

func version(service, version string) event {
	return event{say: "changes " + service + " to " + version, do: func(w *world) { w.services[service].wanted.version = version }}
}

// midway is when the first group of a service was changed for a restart.
func midway(service, token string) func(*world) bool {
	return func(w *world) bool { return w.services[service].groups[0].template.token == token }
}

func restartScenarios() map[string]scenario {
	return map[string]scenario{
		"sequential-default-order": {setup: graph, events: []event{ask(sequential("r1"))}, want: completed("r1")},
		"sequential-given-order":   {setup: graph, events: []event{ask(sequential("r1", "Prefill", "Decode", "Frontend"))}, want: completed("r1")},
		"parallel":                 {setup: graph, events: []event{ask(atOnce("r1"))}, want: completed("r1")},
		"superseded": {setup: graph, meddling: true, want: completed("r2"),
			events: []event{ask(sequential("r1")), ask(sequential("r2")).once(midway("Frontend", "r1"))}},
		"withdrawn-midway": {setup: graph, meddling: true,
			events: []event{ask(sequential("r1")), withdraw().once(midway("Frontend", "r1"))},
			check:  func(t *testing.T, w *world) { told(t, w, "r1", "r1", "") }},
		"removed-after-completion": {setup: graph, events: []event{ask(sequential("r1")), withdraw()}, want: completed("r1")},
		"unready-from-the-start": {
			setup: func(w *world) {
				graph(w)
				w.services["Frontend"].sick = true
				for _, g := range w.services["Frontend"].groups {
					g.ready = false
				}
			},
			events: []event{ask(sequential("r1")), {say: "cures Frontend", do: func(w *world) { w.services["Frontend"].sick = false }}},
			want:   completed("r1")},
		"service-added": {setup: graph, meddling: true, want: completed("r1"),
			events: []event{ask(sequential("r1")), {say: "adds Encode", when: midway("Decode", "r1"), do: func(w *world) { w.asked = append(w.asked, "Encode") }}}},
		"service-removed": {setup: graph, want: completed("r1"),
			events: []event{ask(sequential("r1")), {say: "removes Frontend", when: midway("Frontend", "r1"), do: func(w *world) { w.asked = []string{"Decode", "Prefill"} }}}},
		"order-changed": {setup: graph, meddling: true, want: completed("r1"),
			events: []event{ask(sequential("r1")), ask(sequential("r1", "Prefill", "Frontend", "Decode")).once(midway("Decode", "r1"))}},
		"status-lost": {setup: graph, want: completed("r1"),
			events: []event{ask(sequential("r1")), {say: "wipes the status", when: midway("Frontend", "r1"), do: func(w *world) { w.status = nil }}}},
		"status-lost-after-completion": {setup: graph, want: completed("r1"),
			events: []event{ask(sequential("r1")), {say: "wipes the status", do: func(w *world) { w.status = nil }}}},
		"created-with-a-restart": {want: completed("r1"),
			setup: func(w *world) { w.asked, w.spec = []string{"Frontend", "Decode"}, sequential("r1") }},
	}
}

func groupScenarios() map[string]scenario {
	decode := func(maxUnavailable int) func(*world) { return func(w *world) { w.add("Decode", 4, maxUnavailable) } }
	final := func(version string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) {
			for _, g := range w.services["Decode"].groups {
				if g.template.version != version || !g.ready {
					t.Errorf("%s ends with %s, ready %v", g.name, g.template.version, g.ready)
				}
			}
		}
	}
	return map[string]scenario{
		"groups-one-unavailable": {setup: decode(1), events: []event{version("Decode", "v2")}, check: final("v2")},
		"groups-two-unavailable": {setup: decode(2), events: []event{version("Decode", "v2")}, check: final("v2")},
		"groups-restarted":       {setup: decode(1), events: []event{ask(sequential("r1"))}, want: completed("r1")},
		"groups-broken-template-reverted": {
			setup:  func(w *world) { w.add("Decode", 4, 1); w.broken = "v2" },
			events: []event{version("Decode", "v2"), version("Decode", "v1")}, check: final("v1")},
		"groups-broken-template-corrected": {
			setup:  func(w *world) { w.add("Decode", 4, 2); w.broken = "v2" },
			events: []event{version("Decode", "v2"), version("Decode", "v3")}, check: final("v3")},
		"groups-changed-and-restarted-at-once": {setup: decode(1), meddling: true, want: completed("r1"), check: final("v2"),
			events: []event{version("Decode", "v2"), ask(atOnce("r1")).once(func(w *world) bool { return w.services["Decode"].groups[1].template.version == "v2" })}},
	}
}

func scenarios() map[string]scenario {
	all := restartScenarios()
	maps.Copy(all, groupScenarios())
	return all
}

// told fails if Decode, Frontend and Prefill do not carry these tokens.
func told(t *testing.T, w *world, want ...string) {
	t.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		got = append(got, w.services[name].wanted.token)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", name+".golden")
			got := sc.run(t, newWorld(t, nil))
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func TestEveryTranscriptHasAScenario(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil {
		t.Fatal(err)
	}
	known := scenarios()
	for _, file := range files {
		name := filepath.Base(file)
		if _, ok := known[name[:len(name)-len(".golden")]]; !ok {
			t.Errorf("%s is of no scenario", file)
		}
	}
}

// TestScenariosEndWellInAnyOrder lets actors take turns at random, look at the world late, and fail to write.
func TestScenariosEndWellInAnyOrder(t *testing.T) {
	t.Parallel()
	for name, sc := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				w := newWorld(t, rand.New(rand.NewPCG(seed, 1)))
				w.forgetful = seed%2 == 1 && !sc.meddling
				sc.run(t, w)
				if t.Failed() {
					t.Fatalf("seed %d:\n%s", seed, w.transcript.String())
				}
			}
		})
	}
}

// run plays a scenario until nothing happens any more and returns what was said.
func (sc scenario) run(t *testing.T, w *world) string {
	t.Helper()
	sc.setup(w)
	for name := range w.services {
		w.look(name)
	}
	pending := sc.events
	for round := 0; ; round++ {
		if round > maxRounds {
			t.Fatalf("no end\n%s", w.transcript.String())
		}
		if w.round(&pending) || !w.calm(&pending) {
			continue
		}
		if len(pending) == 0 {
			break
		}
		w.happen(&pending)
	}
	if diff := cmp.Diff(sc.want, w.status); diff != "" {
		t.Errorf("status in the end (-want +got):\n%s", diff)
	}
	for _, s := range w.services {
		if !s.done() || (sc.want != nil && s.wanted.token != sc.want.ObservedID) {
			t.Errorf("%s ends with %+v, %d of %d ready", s.name, s.wanted, s.ready(), s.replicas)
		}
	}
	if sc.check != nil {
		sc.check(t, w)
	}
	return w.transcript.String()
}

func (w *world) happen(pending *[]event) {
	e := (*pending)[0]
	*pending = (*pending)[1:]
	w.say("user", "%s", e.say)
	e.do(w)
}

// round gives actors a turn, all of them in the fixed order, about half of them in any order. It tells whether one acted.
func (w *world) round(pending *[]event) bool {
	before := w.lines
	actors := w.actors()
	if w.random != nil {
		w.random.Shuffle(len(actors), func(i, j int) { actors[i], actors[j] = actors[j], actors[i] })
		actors = actors[:w.random.IntN(len(actors)+1)]
	}
	w.play(actors, pending)
	return w.lines > before
}

// calm tells whether nothing is left to do: all look at the world as it is, nothing fails, and still nobody acts.
func (w *world) calm(pending *[]event) bool {
	before := w.lines
	w.faultless = true
	for name := range w.services {
		w.look(name)
	}
	w.play(w.actors(), pending)
	w.faultless = false
	return w.lines == before
}

func (w *world) play(actors []func(), pending *[]event) {
	for _, act := range actors {
		act()
		if len(*pending) > 0 && (*pending)[0].when != nil && (*pending)[0].when(w) {
			w.happen(pending)
		}
	}
}

// actors returns everybody who can do something, in the fixed order. Views come first, so that only a shuffle makes
// them late.
func (w *world) actors() []func() {
	var views, components, groups []func()
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		s := w.services[name]
		if w.lag[name]++; w.lag[name] > maxLag {
			w.look(name)
		}
		views = append(views, func() { w.look(name) })
		components = append(components, func() { w.roll(s) })
		for _, g := range s.groups {
			groups = append(groups, func() { w.rise(s, g) })
		}
	}
	return slices.Concat(views, []func(){w.operate}, components, groups)
}
