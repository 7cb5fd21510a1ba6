// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

const (
	// maxRounds is far more than any scenario needs; one that takes longer does not end.
	maxRounds = 500
	// maxLag is after how many rounds a view is brought up to date at the latest.
	maxLag = 4
)

// template is what a group is made from: what the user wants and the restart it was told of.
type template struct{ version, token string }

// group is one replica of a service. In this world a group that was changed is down until it had its turn.
type group struct {
	name     string
	template template
	ready    bool
	tokens   []string // all it ever had, in order
}

// service is a child of the graph with its groups.
type service struct {
	name           string
	wanted         template
	replicas       int
	maxUnavailable int
	groups         []*group
	sick           bool   // its groups cannot become ready
	madeWith       string // the token it was made with: for that one it has nothing to replace
	tokens         []string
}

func (s *service) done() bool {
	return len(s.groups) == s.replicas && !slices.ContainsFunc(s.groups, func(g *group) bool { return g.template != s.wanted || !g.ready })
}

func (s *service) ready() int {
	n := 0
	for _, g := range s.groups {
		if g.ready {
			n++
		}
	}
	return n
}

// world is a simulated cluster. Its actors are the operator that plans with Next, one component per service that plans
// with Replace, and the groups; each sees the others as its views show them.
type world struct {
	t        *testing.T
	spec     *v1alpha1.Restart
	status   *v1alpha1.RestartStatus
	asked    []string // the services that the user wants
	services map[string]*service
	broken   string // the version that never becomes ready

	seen      map[string]Seen
	groupSeen map[string]group
	lag       map[string]int
	forgetful bool // views do not include the viewer's own writes

	random     *rand.Rand // nil for the fixed order
	faultless  bool       // no write fails, although the order is shuffled
	transcript strings.Builder
	lines      int
}

func newWorld(t *testing.T, random *rand.Rand) *world {
	return &world{
		t: t, random: random, services: map[string]*service{},
		seen: map[string]Seen{}, groupSeen: map[string]group{}, lag: map[string]int{},
	}
}

// add puts a service into the world that runs and is ready.
func (w *world) add(name string, replicas, maxUnavailable int) *service {
	s := &service{name: name, replicas: replicas, maxUnavailable: maxUnavailable, wanted: template{version: "v1"}, tokens: []string{""}}
	for i := range replicas {
		s.groups = append(s.groups, &group{name: groupName(name, i), template: s.wanted, ready: true, tokens: []string{""}})
	}
	w.services[name] = s
	w.asked = append(w.asked, name)
	return s
}

func groupName(service string, i int) string { return fmt.Sprintf("%s-%d", service, i) }

func (w *world) say(who, format string, args ...any) {
	w.lines++
	fmt.Fprintf(&w.transcript, "%-12s %s\n", who, fmt.Sprintf(format, args...))
}

// fails tells whether a write fails now.
func (w *world) fails() bool { return w.random != nil && !w.faultless && w.random.IntN(6) == 0 }

// operate is one pass of the operator: plan, tell services, report. A write that fails does not stop the others.
func (w *world) operate() {
	plan := Next(w.spec, w.asked, w.status, w.seen)
	if !reflect.DeepEqual(plan.Status, w.status) && !w.fails() {
		w.say("operator", "%s", cmp.Or(plan.Note, "no restart"))
		w.status = plan.Status
		w.checkCompleted()
	}
	for _, name := range slices.Sorted(slices.Values(w.asked)) {
		if w.services[name] == nil && !w.fails() {
			w.create(name, plan.Tokens[name])
		}
		if s := w.services[name]; s != nil && s.wanted.token != plan.Tokens[name] && !w.fails() {
			w.tell(s, plan.Tokens[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.services)) {
		if !slices.Contains(w.asked, name) {
			w.say("operator", "removes %s", name)
			delete(w.services, name)
			delete(w.seen, name)
		}
	}
}

func (w *world) create(name, token string) {
	w.say("operator", "makes %s%s", name, with(token))
	s := &service{name: name, replicas: 2, maxUnavailable: 1, wanted: template{"v1", token}, madeWith: token, tokens: []string{token}}
	w.services[name] = s
	w.remember(name, Seen{Token: token})
}

func with(token string) string {
	if token == "" {
		return ""
	}
	return " with " + token
}

func (w *world) tell(s *service, token string) {
	w.say("operator", "tells %s: %s", s.name, cmp.Or(token, "nothing"))
	if slices.Contains(s.tokens, token) {
		w.t.Fatalf("%s is told %q again, after %q\n%s", s.name, token, s.tokens, w.transcript.String())
	}
	s.tokens = append(s.tokens, token)
	s.wanted.token = token
	w.remember(s.name, Seen{Token: token})
	w.checkSequence()
}

func (w *world) remember(name string, seen Seen) {
	if !w.forgetful {
		w.seen[name] = seen
	}
}

// roll is one pass of the component of a service.
func (w *world) roll(s *service) {
	if w.services[s.name] != s {
		return // it was removed in this round
	}
	groups := make([]Group, 0, s.replicas)
	for i := range s.replicas {
		name := groupName(s.name, i)
		view, exists := w.groupSeen[name]
		groups = append(groups, Group{Name: name, Exists: exists, Current: view.template == s.wanted, Ready: view.ready})
	}
	before := s.ready()
	for _, name := range Replace(groups, s.maxUnavailable) {
		w.change(s, name)
	}
	if after := s.ready(); after < before && after < s.replicas-s.maxUnavailable {
		w.t.Fatalf("ready groups of %s fall from %d to %d of %d\n%s", s.name, before, after, s.replicas, w.transcript.String())
	}
}

func (w *world) change(s *service, name string) {
	i := slices.IndexFunc(s.groups, func(g *group) bool { return g.name == name })
	if i >= 0 && s.groups[i].template == s.wanted {
		return // the view is from before it was changed
	}
	if i < 0 {
		i = len(s.groups)
		s.groups = append(s.groups, &group{name: name})
	}
	g := s.groups[i]
	if len(g.tokens) == 0 || g.template.token != s.wanted.token {
		if slices.Contains(g.tokens, s.wanted.token) {
			w.t.Fatalf("%s is restarted for %q again, after %q\n%s", name, s.wanted.token, g.tokens, w.transcript.String())
		}
		g.tokens = append(g.tokens, s.wanted.token)
	}
	g.template, g.ready = s.wanted, false
	w.say(s.name, "changes %s to %s%s, %d of %d ready", name, s.wanted.version, with(s.wanted.token), s.ready(), s.replicas)
	if !w.forgetful {
		w.groupSeen[name] = *g
	}
}

// rise lets a group become ready if it can.
func (w *world) rise(s *service, g *group) {
	if w.services[s.name] == s && !g.ready && !s.sick && g.template.version != w.broken {
		g.ready = true
		w.say(g.name, "is ready, %d of %d", s.ready(), s.replicas)
	}
}

// look brings the views of a service and its groups up to date.
func (w *world) look(name string) {
	w.lag[name] = 0
	s := w.services[name]
	if s == nil {
		return
	}
	w.seen[name] = Seen{Token: s.wanted.token, Done: s.done()}
	for _, g := range s.groups {
		w.groupSeen[g.name] = *g
	}
}

// checkCompleted fails if a restart is called completed although a group was not replaced for it or is not ready.
func (w *world) checkCompleted() {
	if w.status == nil || w.status.Phase != v1alpha1.RestartPhaseCompleted || w.spec == nil {
		return
	}
	for _, name := range w.asked {
		if s := w.services[name]; s == nil || s.wanted.token != w.status.ObservedID || !s.done() {
			w.t.Fatalf("completed without %s\n%s", name, w.transcript.String())
		}
	}
}

// checkSequence fails if a sequential restart takes two services down at a time.
func (w *world) checkSequence() {
	if w.spec == nil || parallel(w.spec.Strategy) {
		return
	}
	var rolling []string
	for _, name := range w.asked {
		if s := w.services[name]; s != nil && s.wanted.token == w.spec.ID && s.madeWith != w.spec.ID && !s.done() {
			rolling = append(rolling, name)
		}
	}
	if len(rolling) > 1 {
		w.t.Fatalf("%s restart at the same time\n%s", strings.Join(rolling, " and "), w.transcript.String())
	}
}
