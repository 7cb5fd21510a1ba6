// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parse reads groups, one per letter: O and o have an old template, N and n the wanted one; capitals are ready. A dot
// does not exist. They are called 0, 1, 2.
func parse(text string) []Group {
	groups := make([]Group, 0, len(text))
	for i, letter := range text {
		groups = append(groups, Group{
			Name: strconv.Itoa(i), Exists: letter != '.',
			Current: letter == 'N' || letter == 'n', Ready: letter == 'N' || letter == 'O',
		})
	}
	return groups
}

func TestGroupsAreReplacedOnlyWhileEnoughAreReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		groups         string
		maxUnavailable int
		want           []string
	}{
		"none wanted":                                     {"", 1, nil},
		"all current":                                     {"NNN", 1, nil},
		"all current, some not ready yet":                 {"NnN", 1, nil},
		"the first of many":                               {"OOOO", 1, []string{"0"}},
		"the next waits for the one before":               {"nOOO", 1, nil},
		"the next after it":                               {"NOOO", 1, []string{"1"}},
		"in the order given":                              {"ONON", 1, []string{"0"}},
		"the last":                                        {"NNNO", 1, []string{"3"}},
		"two at a time":                                   {"OOOO", 2, []string{"0", "1"}},
		"two at a time, one on its way":                   {"nOOO", 2, []string{"1"}},
		"two at a time, one left":                         {"NNNO", 2, []string{"3"}},
		"more than there are":                             {"OOO", 9, []string{"0", "1", "2"}},
		"the only one":                                    {"O", 1, []string{"0"}},
		"nothing may be missing, which cannot be":         {"OO", 0, []string{"0"}},
		"less than nothing":                               {"OO", -3, []string{"0"}},
		"new ones are made at once":                       {"...", 1, []string{"0", "1", "2"}},
		"new ones are made at once, none goes for that":   {"OO..", 1, []string{"2", "3"}},
		"more replicas, the new ones on their way":        {"OOnn", 1, nil},
		"more replicas, one of the new ones ready":        {"OONn", 1, nil},
		"more replicas, both ready":                       {"OONN", 1, []string{"0"}},
		"a broken old one is corrected first":             {"OoO", 1, []string{"1"}},
		"all broken old ones at once":                     {"ooo", 1, []string{"0", "1", "2"}},
		"a broken old one while another is on its way":    {"noO", 1, []string{"1"}},
		"a broken old one and a budget for one more":      {"OOoO", 2, []string{"2", "0"}},
		"a broken old one uses up the budget":             {"OOOo", 1, []string{"3"}},
		"the wanted template is broken: the rest goes on": {"nOO", 1, nil},
		"two broken, two allowed":                         {"nnOO", 2, nil},
	} {
		if diff := cmp.Diff(tc.want, Replace(parse(tc.groups), tc.maxUnavailable)); diff != "" {
			t.Errorf("%s: Replace(%s, %d) (-want +got):\n%s", name, tc.groups, tc.maxUnavailable, diff)
		}
	}
}

// TestReplacementIsSafeAndEnds walks through every set of up to five groups: what is replaced never takes the ready
// ones below what has to be left, and doing what is allowed, then waiting until it is ready, ends with all current.
func TestReplacementIsSafeAndEnds(t *testing.T) {
	t.Parallel()
	const letters = "OoNn."
	sets := []string{""}
	for i := 0; i < len(sets); i++ {
		if len(sets[i]) < 5 {
			for _, letter := range letters {
				sets = append(sets, sets[i]+string(letter))
			}
		}
	}
	for _, set := range sets {
		for limit := 1; limit <= 3; limit++ {
			groups := parse(set)
			for rounds := 0; !settled(groups); rounds++ {
				if rounds > len(groups) {
					t.Fatalf("%s, %d unavailable: not done after %d rounds", set, limit, rounds)
				}
				replaceOnce(t, set, groups, limit)
				for i := range groups {
					groups[i].Ready = groups[i].Ready || groups[i].Current
				}
			}
		}
	}
}

func settled(groups []Group) bool {
	for _, g := range groups {
		if !g.Exists || !g.Current || !g.Ready {
			return false
		}
	}
	return true
}

func replaceOnce(t *testing.T, set string, groups []Group, limit int) {
	t.Helper()
	before := countReady(groups)
	for _, name := range Replace(groups, limit) {
		i, err := strconv.Atoi(name)
		if err != nil || (groups[i].Exists && groups[i].Current) {
			t.Fatalf("%s, %d unavailable: %q is to be replaced in %+v", set, limit, name, groups)
		}
		groups[i] = Group{Name: name, Exists: true, Current: true}
	}
	if after := countReady(groups); after < before && after < len(groups)-limit {
		t.Fatalf("%s, %d unavailable: ready groups fall from %d to %d", set, limit, before, after)
	}
}

func countReady(groups []Group) int {
	n := 0
	for _, g := range groups {
		if g.Ready {
			n++
		}
	}
	return n
}

func TestMaxUnavailableIsANumberOrAShare(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		"": 2, "1": 1, "3": 3, "0": 1, "9": 9, "-1": 2,
		"25%": 2, "29%": 2, "30%": 3, "100%": 10, "5%": 1, "0%": 1, "-20%": 2,
		"a few": 2, "%": 2, "1.5": 2, "12.5%": 2, " 3": 2, "99999999999": 2, "99999999999999999999%": 2,
	} {
		if got := MaxUnavailable(value, 10, 2); got != want {
			t.Errorf("MaxUnavailable(%q) of 10 = %d, want %d", value, got, want)
		}
	}
	if got := MaxUnavailable("50%", 0, 0); got != 1 {
		t.Errorf("half of no groups is %d, want 1", got)
	}
	if got := MaxUnavailable("", 4, 0); got != 1 {
		t.Errorf("a default of nothing is %d, want 1", got)
	}
}
