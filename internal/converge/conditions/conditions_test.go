// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

const (
	Ready     = v1alpha1.ConditionReady
	Available = v1alpha1.ConditionAvailable
	Valid     = v1alpha1.ConditionValid
)

var (
	then = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	now  = metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
)

func TestTransitionTimeMovesOnlyWithTheStatus(t *testing.T) {
	t.Parallel()
	before := []metav1.Condition{
		{Type: Ready, Status: metav1.ConditionFalse, Reason: "A", LastTransitionTime: then},
		{Type: Available, Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: then},
	}
	s := NewSet(2, before, now)
	s.Put(Ready, metav1.ConditionTrue, "B", "")
	s.Put(Available, metav1.ConditionTrue, "B", "other words")
	got := map[string]metav1.Time{}
	for _, c := range s.Sorted() {
		got[c.Type] = c.LastTransitionTime
	}
	if diff := cmp.Diff(map[string]metav1.Time{Ready: now, Available: then}, got); diff != "" {
		t.Errorf("transition times (-want +got):\n%s", diff)
	}
}

func TestConditionsAreSortedNeverNilAndForgottenUnlessPutAgain(t *testing.T) {
	t.Parallel()
	if got := NewSet(1, []metav1.Condition{{Type: Ready}}, now).Sorted(); got == nil || len(got) != 0 {
		t.Errorf("got %v, want an empty list that is not nil", got)
	}
	s := NewSet(1, nil, now)
	s.Put(Valid, metav1.ConditionTrue, "A", "")
	s.Put(Available, metav1.ConditionTrue, "A", "")
	if got := s.Sorted(); got[0].Type != Available || got[1].Type != Valid {
		t.Errorf("got order %s, %s", got[0].Type, got[1].Type)
	}
}

func TestKeepCarriesAConditionUnchanged(t *testing.T) {
	t.Parallel()
	was := metav1.Condition{Type: Available, Status: metav1.ConditionTrue, Reason: "A", Message: "m", LastTransitionTime: then, ObservedGeneration: 1}
	s := NewSet(2, []metav1.Condition{was}, now)
	s.Keep(Available)
	s.Keep(Ready)
	if diff := cmp.Diff([]metav1.Condition{was}, s.Sorted()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestTransitionedIgnoresWordsAndSeesEverythingElse(t *testing.T) {
	t.Parallel()
	base := metav1.Condition{Type: Ready, Status: metav1.ConditionFalse, Reason: "A", Message: "m", ObservedGeneration: 1}
	with := func(change func(*metav1.Condition)) []metav1.Condition {
		c := base
		change(&c)
		return []metav1.Condition{c}
	}
	for name, tc := range map[string]struct {
		after []metav1.Condition
		want  bool
	}{
		"nothing":    {with(func(*metav1.Condition) {}), false},
		"message":    {with(func(c *metav1.Condition) { c.Message = "x" }), false},
		"time":       {with(func(c *metav1.Condition) { c.LastTransitionTime = now }), false},
		"status":     {with(func(c *metav1.Condition) { c.Status = metav1.ConditionTrue }), true},
		"reason":     {with(func(c *metav1.Condition) { c.Reason = "B" }), true},
		"generation": {with(func(c *metav1.Condition) { c.ObservedGeneration = 2 }), true},
		"type":       {with(func(c *metav1.Condition) { c.Type = Valid }), true},
		"gone":       {nil, true},
	} {
		if got := Transitioned([]metav1.Condition{base}, tc.after); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestSummaryNamesTheFirstThreeInOrderAndCountsTheRest(t *testing.T) {
	t.Parallel()
	for want, about := range map[string]map[string]string{
		"":                             {},
		"a: x":                         {"a": "x"},
		"a: x; b: y; c: z":             {"c": "z", "a": "x", "b": "y"},
		"a: 1; b: 2; c: 3; and 2 more": {"e": "5", "d": "4", "c": "3", "b": "2", "a": "1"},
	} {
		if got := Summary(about); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestLongMessagesAreClippedAtARune(t *testing.T) {
	t.Parallel()
	s := NewSet(1, nil, now)
	s.Put(Ready, metav1.ConditionFalse, "A", strings.Repeat("é", maxMessage))
	got := s.Sorted()[0].Message
	if len(got) > maxMessage || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
		t.Errorf("message of %d bytes, valid %v, ends %q", len(got), utf8.ValidString(got), got[len(got)-6:])
	}
}
