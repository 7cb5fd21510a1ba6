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

// epoch is when tests begin.
var epoch = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return epoch.Add(d) }

func TestANoteCountsOnlyForTheHolderItNames(t *testing.T) {
	t.Parallel()
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "7", Annotations: map[string]string{
				names.AnnotationScope:      note{Holder: "one", Election: "ns/leader", Settled: true}.String(),
				names.AnnotationReleasedTo: "one",
			}},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: new(int32(30)), RenewTime: &metav1.MicroTime{Time: epoch}},
		}
	}
	mine := read(lease("one"))
	if diff := cmp.Diff(note{Holder: "one", Election: "ns/leader", Settled: true}, mine.note); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !mine.acknowledged() || !mine.ours() || mine.duration != 30*time.Second || !mine.renewed.Equal(epoch) {
		t.Errorf("read %+v", mine)
	}
	stolen := read(lease("another")) // as the reference does: it overwrites the holder and keeps annotations
	if stolen.ours() || stolen.acknowledged() || stolen.note != (note{}) {
		t.Errorf("a note about somebody else counts: %+v", stolen)
	}
	if got := read(&coordinationv1.Lease{}); got != (claim{}) {
		t.Errorf("an empty Lease is read as %+v", got)
	}
}

func TestALeaseEndsByTheClockOfTheOneWhoLooks(t *testing.T) {
	t.Parallel()
	base := claim{uid: "u", version: "1", holder: "one", duration: 30 * time.Second, renewed: epoch.Add(-9 * time.Hour)}
	with := func(change func(*claim)) claim {
		c := base
		change(&c)
		return c
	}
	for name, tc := range map[string]struct {
		later claim
		want  time.Time
	}{
		"not renewed":                        {base, after(30 * time.Second)},
		"renewed, however wrong their clock": {with(func(c *claim) { c.renewed = c.renewed.Add(time.Microsecond) }), after(50 * time.Second)},
		"renewed, and their clock went back": {with(func(c *claim) { c.renewed = c.renewed.Add(-time.Hour) }), after(50 * time.Second)},
		"another holder":                     {with(func(c *claim) { c.holder = "two" }), after(50 * time.Second)},
		"another Lease":                      {with(func(c *claim) { c.uid = "v" }), after(50 * time.Second)},
		"an annotation":                      {with(func(c *claim) { c.version, c.releasedTo = "2", "one" }), after(30 * time.Second)},
		"a shorter duration":                 {with(func(c *claim) { c.duration = 5 * time.Second }), after(5 * time.Second)},
		"no duration":                        {with(func(c *claim) { c.duration = 0 }), epoch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sighting{}.see(base, epoch).see(tc.later, after(20*time.Second)).expires()
			if !got.Equal(tc.want) {
				t.Errorf("ends after %s, want %s", got.Sub(epoch), tc.want.Sub(epoch))
			}
		})
	}
}

func TestALeaseWithoutARenewalTimeCountsFromWhenItWasSeen(t *testing.T) {
	t.Parallel()
	made := claim{uid: "u", version: "1", holder: "reference", duration: 30 * time.Second}
	if got := (sighting{}).see(made, epoch).expires(); !got.Equal(after(30 * time.Second)) {
		t.Errorf("ends at %s", got)
	}
}
