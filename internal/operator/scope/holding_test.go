// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

var (
	usual = Timing{Duration: 30 * time.Second, Renew: 10 * time.Second}
	me    = note{Holder: "me", Election: "ns/leader", Pod: "pod-1"}
)

// theirs is a Lease of somebody else that was seen at the epoch.
func theirs(n note) *sighting {
	holder := n.Holder
	if holder == "" {
		holder = "reference"
	}
	return &sighting{at: epoch, claim: claim{uid: "u", version: "1", holder: holder, duration: 30 * time.Second, renewed: epoch, note: n}}
}

// mine is a Lease of ours that was made at the epoch.
func mine(change func(*holding)) holding {
	h := holding{
		timing: usual, self: me, known: true, held: true, renewed: epoch, settled: after(10 * time.Second),
		lease: &sighting{at: epoch, claim: claim{uid: "u", version: "1", holder: "me", duration: 30 * time.Second, renewed: epoch, note: me}},
	}
	if change != nil {
		change(&h)
	}
	return h
}

func working(h *holding) { h.working = true }

func TestWhatARestrictedOperatorDoesNext(t *testing.T) {
	t.Parallel()
	not := func(l *sighting) holding { return holding{timing: usual, self: me, known: true, lease: l} }
	for name, tc := range map[string]struct {
		state holding
		at    time.Duration
		want  act
		until time.Duration
	}{
		"nothing known":                              {holding{timing: usual, self: me}, 0, actLook, 0},
		"no Lease":                                   {not(nil), 0, actMake, 0},
		"a living reference":                         {not(theirs(note{})), 29 * time.Second, actWait, 30 * time.Second},
		"a dead reference":                           {not(theirs(note{})), 30 * time.Second, actTake, 30 * time.Second},
		"a living instance of ours":                  {not(theirs(note{Holder: "other"})), 0, actWait, 30 * time.Second},
		"one of another election":                    {not(theirs(note{Holder: "other", Election: "ns/another"})), 0, actWait, 30 * time.Second},
		"a predecessor of the same election":         {not(theirs(note{Holder: "other", Election: "ns/leader"})), 0, actTake, 0},
		"a predecessor in the same pod":              {not(theirs(note{Holder: "other", Pod: "pod-1"})), 0, actTake, 0},
		"a Lease that was let go":                    {not(theirs(note{Holder: "other", Released: true})), 0, actTake, 0},
		"our own, whose answer was lost":             {not(theirs(me)), 0, actTake, 0},
		"after a failure":                            {holding{timing: usual, self: me, pause: after(time.Second)}, 0, actWait, time.Second},
		"settling":                                   {mine(nil), 5 * time.Second, actWait, 10 * time.Second},
		"acknowledged":                               {mine(func(h *holding) { h.lease.releasedTo = "me" }), 0, actBegin, 0},
		"acknowledged to a predecessor":              {mine(func(h *holding) { h.lease.releasedTo = "other" }), 0, actWait, 10 * time.Second},
		"settled":                                    {mine(nil), 10 * time.Second, actBegin, 10 * time.Second},
		"working":                                    {mine(working), 5 * time.Second, actWait, 10 * time.Second},
		"working, time to renew":                     {mine(working), 10 * time.Second, actRenew, 10 * time.Second},
		"renewal failed":                             {mine(func(h *holding) { h.working, h.known, h.pause = true, false, after(14*time.Second) }), 12 * time.Second, actWait, 14 * time.Second},
		"renewal failed, after the pause":            {mine(func(h *holding) { h.working, h.known, h.pause = true, false, after(14*time.Second) }), 14 * time.Second, actLook, 14 * time.Second},
		"renewal failed, little time left":           {mine(func(h *holding) { h.working, h.known, h.pause = true, false, after(26*time.Second) }), 24 * time.Second, actWait, 25 * time.Second},
		"not renewed in time":                        {mine(working), 25 * time.Second, actLate, 25 * time.Second},
		"not renewed in time, and nothing known":     {mine(func(h *holding) { h.known = false }), 25 * time.Second, actLate, 25 * time.Second},
		"deleted by somebody":                        {mine(func(h *holding) { h.lease, h.working = nil, true }), time.Second, actYield, time.Second},
		"deleted by somebody, before that was known": {mine(nil).yielded().seen(nil, epoch), time.Second, actMake, time.Second},
		"stolen":                            {mine(func(h *holding) { h.lease, h.working = theirs(note{}), true }), time.Second, actLost, time.Second},
		"stolen while a renewal is failing": {mine(func(h *holding) { h.lease, h.pause = theirs(note{}), after(time.Minute) }), time.Second, actLost, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do, until := tc.state.next(after(tc.at))
			if do != tc.want || !until.Equal(after(tc.until)) {
				t.Errorf("after %s: %s until %s, want %s until %s", tc.at, do, until.Sub(epoch), tc.want, tc.until)
			}
		})
	}
}

func TestANewHolderWaitsForTheOtherSideUnlessThatKeptOutAllTheTime(t *testing.T) {
	t.Parallel()
	settled := note{Holder: "other", Election: "ns/leader", Settled: true}
	for name, tc := range map[string]struct {
		lease *sighting
		at    time.Duration
		want  time.Duration
	}{
		"no Lease":                             {nil, 0, 10 * time.Second},
		"a Lease of the reference":             {theirs(note{}), 31 * time.Second, 10 * time.Second},
		"a predecessor that had not settled":   {theirs(note{Holder: "other"}), time.Second, 10 * time.Second},
		"one that had settled":                 {theirs(settled), 24 * time.Second, 0},
		"one that had settled, near its end":   {theirs(settled), 25 * time.Second, 10 * time.Second},
		"one that had settled, but not lately": {theirs(settled), 31 * time.Second, 10 * time.Second},
		"one that had settled, with a fast clock": {&sighting{at: epoch, claim: claim{
			holder: "other", duration: 30 * time.Second, renewed: after(time.Hour), note: settled,
		}}, 31 * time.Second, 10 * time.Second},
		"one to whom ours let go": {&sighting{at: epoch, claim: claim{
			holder: "other", duration: 30 * time.Second, renewed: epoch, note: settled, releasedTo: "other",
		}}, time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := holding{timing: usual, self: me, known: true, lease: tc.lease}
			if got := h.settleFrom(after(tc.at)); got != tc.want {
				t.Errorf("waits %s, want %s", got, tc.want)
			}
		})
	}
}

func TestALeaseIsWrittenWhole(t *testing.T) {
	t.Parallel()
	old := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, ResourceVersion: "7", Annotations: map[string]string{
			"theirs": "stays", names.AnnotationReleasedTo: "other",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(60)), LeaseTransitions: new(int32(2))},
	}
	h := holding{timing: usual, self: me, known: true, lease: &sighting{claim: read(old), at: epoch}}
	at := metav1.MicroTime{Time: after(time.Second)}
	taken := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, ResourceVersion: "7", Annotations: map[string]string{
			"theirs": "stays", names.AnnotationScope: `{"holder":"me","election":"ns/leader","pod":"pod-1"}`,
		}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("me"), LeaseDurationSeconds: new(int32(30)), AcquireTime: &at, RenewTime: &at, LeaseTransitions: new(int32(3)),
		},
	}
	got := h.write(old, at.Time)
	if diff := cmp.Diff(taken, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}

	h = h.adopted(got, at.Time, at.Time)
	h.working = true
	got.Annotations[names.AnnotationReleasedTo] = "me"
	later := metav1.MicroTime{Time: after(11 * time.Second)}
	renewed := got.DeepCopy()
	renewed.Spec.RenewTime = &later
	renewed.Annotations[names.AnnotationScope] = `{"holder":"me","election":"ns/leader","pod":"pod-1","settled":true}`
	if diff := cmp.Diff(renewed, h.write(got, later.Time)); diff != "" {
		t.Errorf("renewed (-want +got):\n%s", diff)
	}

	released := renewed.DeepCopy()
	released.Spec.LeaseDurationSeconds = new(int32(5))
	released.Annotations[names.AnnotationScope] = `{"holder":"me","election":"ns/leader","pod":"pod-1","settled":true,"released":true}`
	if diff := cmp.Diff(released, h.release(got, later.Time)); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
}

func TestASuccessorThatNeedNotSettleSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	h := holding{timing: usual, self: me, known: true, lease: theirs(note{Holder: "other", Election: "ns/leader", Settled: true})}
	l := h.write(&coordinationv1.Lease{}, after(time.Second))
	if !read(l).note.Settled {
		t.Errorf("the note is %s", l.Annotations[names.AnnotationScope])
	}
	h = h.adopted(l, after(time.Second), after(2*time.Second))
	if do, _ := h.next(after(2 * time.Second)); do != actBegin {
		t.Errorf("next is %s, want %s", do, actBegin)
	}
}

func TestTheClaimIsOnlyAsFreshAsItsRequest(t *testing.T) {
	t.Parallel()
	h := mine(working).renewedBy(&coordinationv1.Lease{}, after(10*time.Second), after(14*time.Second))
	if got := h.deadline(); !got.Equal(after(35 * time.Second)) {
		t.Errorf("work may go on until %s after the first request, want 35s", got.Sub(epoch))
	}
}
