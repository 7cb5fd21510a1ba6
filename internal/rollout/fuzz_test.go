// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// choices turns bytes into decisions; when they are used up, the first possibility is taken.
type choices []byte

func (c *choices) of(possible ...string) string {
	if len(*c) == 0 {
		return possible[0]
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return possible[int(b)%len(possible)]
}

func (c *choices) yes() bool { return c.of("no", "yes") == "yes" }

func (c *choices) names() []string {
	var names []string
	for {
		name := c.of("", "a", "b", "c", "d", "e")
		if name == "" {
			return names
		}
		names = append(names, name)
	}
}

// situation is everything that Next is told.
type situation struct {
	Spec     *v1alpha1.Restart
	Services []string
	Was      *v1alpha1.RestartStatus
	Seen     map[string]Seen
}

func (s situation) next() Restart { return Next(s.Spec, s.Services, s.Was, s.Seen) }

func imagine(data []byte) situation {
	c := choices(data)
	s := situation{Services: c.names()}
	if c.yes() {
		s.Spec = &v1alpha1.Restart{ID: c.of("r1", "r2", "")}
		if c.yes() {
			s.Spec.Strategy = &v1alpha1.RestartStrategy{Type: v1alpha1.RestartStrategyType(c.of("Sequential", "Parallel", "", "Other")), Order: c.names()}
		}
	}
	if c.yes() {
		s.Was = &v1alpha1.RestartStatus{
			ObservedID: c.of("r1", "r2", ""), Phase: v1alpha1.RestartPhase(c.of("Restarting", "Completed", "Failed", "Pending", "")), InProgress: c.names(),
		}
	}
	for _, name := range c.names() {
		if s.Seen == nil {
			s.Seen = map[string]Seen{}
		}
		s.Seen[name] = Seen{Token: c.of("r1", "r2", "r0", ""), Done: c.yes()}
	}
	return s
}

// FuzzNext checks what holds for every plan, whatever the situation. Its corpus is in testdata/fuzz, a file per situation.
func FuzzNext(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		s := imagine(data)
		plan := s.next()
		if diff := cmp.Diff(imagine(data), s); diff != "" {
			t.Fatalf("planning changed what it was told (-before +after):\n%s", diff)
		}
		checkStable(t, s, plan)
		checkTokens(t, s, plan)
		if plan.Status != nil && s.Spec != nil && s.Spec.ID != "" {
			checkProgress(t, s, plan)
		}
	})
}

// checkStable fails if planning again, with services in another order, or with the status of the plan gives another.
func checkStable(t *testing.T, s situation, plan Restart) {
	t.Helper()
	other := s
	other.Services = slices.Clone(s.Services)
	slices.Reverse(other.Services)
	if diff := cmp.Diff(plan, other.next()); diff != "" {
		t.Fatalf("services in another order (-first +second):\n%s", diff)
	}
	other.Was = plan.Status
	again := other.next()
	if again.Note = plan.Note; !cmp.Equal(plan, again) {
		t.Fatalf("%+v with the status of the plan (-first +second):\n%s", s, cmp.Diff(plan, again))
	}
}

// checkTokens fails if strangers are told something, a child loses its token, or one gets a token nobody asked for.
func checkTokens(t *testing.T, s situation, plan Restart) {
	t.Helper()
	for name, token := range plan.Tokens {
		if !slices.Contains(s.Services, name) || token == "" {
			t.Fatalf("%+v: %q is told %q", s, name, token)
		}
		if token != s.Seen[name].Token && (plan.Status == nil || token != plan.Status.ObservedID) {
			t.Fatalf("%+v: %q is told %q, which is not the restart's", s, name, token)
		}
	}
	for _, name := range s.Services {
		if s.Seen[name].Token != "" && plan.Tokens[name] == "" {
			t.Fatalf("%+v: the token of %q is taken away", s, name)
		}
	}
}

// checkProgress fails if a restart that is asked for ends early, waits for nobody, or goes back.
func checkProgress(t *testing.T, s situation, plan Restart) {
	t.Helper()
	id := s.Spec.ID
	if plan.Status.ObservedID != id {
		t.Fatalf("%+v: another restart is reported: %+v", s, plan.Status)
	}
	left := slices.DeleteFunc(slices.Clone(s.Services), func(name string) bool { return s.Seen[name] == Seen{Token: id, Done: true} })
	for _, name := range s.Services {
		if s.Seen[name].Token == id && plan.Tokens[name] != id {
			t.Fatalf("%+v: %q was told already", s, name)
		}
	}
	if ended(s.Was) && s.Was.ObservedID == id {
		return
	}
	if (plan.Status.Phase == v1alpha1.RestartPhaseCompleted) != (len(left) == 0) || (len(plan.Status.InProgress) == 0) != (len(left) == 0) {
		t.Fatalf("%+v: %+v with %q left", s, plan.Status, left)
	}
	for _, name := range plan.Status.InProgress {
		if !slices.Contains(left, name) || plan.Tokens[name] != id {
			t.Fatalf("%+v: waits for %q, which is told %q", s, name, plan.Tokens[name])
		}
	}
	if !parallel(s.Spec.Strategy) {
		checkPatience(t, s, plan)
	}
}

// checkPatience fails if services go down together, or before those that were told are back.
func checkPatience(t *testing.T, s situation, plan Restart) {
	t.Helper()
	told, newly := map[string]bool{}, map[string]bool{}
	for _, name := range s.Services {
		seen, exists := s.Seen[name]
		told[name] = seen == Seen{Token: s.Spec.ID}
		newly[name] = exists && seen.Token != s.Spec.ID && plan.Tokens[name] == s.Spec.ID
	}
	no := func(_ string, is bool) bool { return !is }
	maps.DeleteFunc(told, no)
	maps.DeleteFunc(newly, no)
	if len(newly) > 1 || (len(newly) == 1 && len(told) > 0) {
		t.Fatalf("%+v: %v go down while %v are not back", s, newly, told)
	}
}
