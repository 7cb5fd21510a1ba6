// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

func TestWhenTheClusterWideOperatorMayComeBack(t *testing.T) {
	t.Parallel()
	first := claim{uid: "u", version: "5", holder: "one", duration: 30 * time.Second, renewed: epoch}
	renewed := claim{uid: "u", version: "9", holder: "one", duration: 30 * time.Second, renewed: after(10 * time.Second)}
	another := claim{uid: "v", version: "12", holder: "two", duration: 30 * time.Second, renewed: after(10 * time.Second)}
	handedOver := claim{uid: "u", version: "9", holder: "one", duration: 5 * time.Second, renewed: after(10 * time.Second)}
	start := tenancy{}.seen(first, epoch)
	later := after(10 * time.Second)
	for name, tc := range map[string]struct {
		state tenancy
		want  time.Duration
	}{
		"claimed":                    {start, 30 * time.Second},
		"renewed":                    {start.seen(renewed, later), 40 * time.Second},
		"renewed, then an old event": {start.seen(renewed, later).seen(first, after(20*time.Second)), 40 * time.Second},
		"handed over":                {start.seen(handedOver, later), 15 * time.Second},
		"deleted":                    {start.removed(first, later), 11 * time.Second},
		"deleted and made again":     {start.removed(first, later).seen(another, later), 40 * time.Second},
		"made again, then the old event of its deletion":      {start.seen(another, later).removed(first, after(20*time.Second)), 40 * time.Second},
		"made again, then an old event of the one before":     {start.seen(another, later).seen(renewed, after(20*time.Second)), 40 * time.Second},
		"without a duration, which claims nothing (as there)": {tenancy{}.seen(claim{uid: "u", version: "5", renewed: epoch}, epoch), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.state.free().Sub(epoch); got != tc.want {
				t.Errorf("free after %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWhoWaitsForAnAcknowledgement(t *testing.T) {
	t.Parallel()
	ours := claim{uid: "u", version: "5", holder: "one", duration: time.Minute, note: note{Holder: "one"}}
	acknowledged := ours
	acknowledged.releasedTo = "one"
	reference := claim{uid: "u", version: "5", holder: "one", duration: time.Minute}
	for name, tc := range map[string]struct {
		state tenancy
		want  bool
	}{
		"one of ours":                  {tenancy{}.seen(ours, epoch), true},
		"one of ours, answered":        {tenancy{}.seen(acknowledged, epoch), false},
		"the reference, who never did": {tenancy{}.seen(reference, epoch), false},
		"nobody":                       {tenancy{}.seen(ours, epoch).removed(ours, epoch), false},
	} {
		if got := tc.state.waits(); got != tc.want {
			t.Errorf("%s: waits is %v, want %v", name, got, tc.want)
		}
	}
}

func TestOnlyAListThatIsNewerTellsThatALeaseIsGone(t *testing.T) {
	t.Parallel()
	known := tenancy{}.seen(claim{uid: "u", version: "100"}, epoch)
	for version, want := range map[string]bool{"99": false, "100": false, "101": true, "1000": true} {
		if got := known.absentFrom(version); got != want {
			t.Errorf("a list of version %s: gone is %v, want %v", version, got, want)
		}
	}
	if (tenancy{gone: epoch}).absentFrom("101") {
		t.Error("what is gone is gone once more")
	}
}

func TestAWatchMayBringWhatIsOlderThanTheAnswerToAList(t *testing.T) {
	t.Parallel()
	event := func(version string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, Namespace: "a", UID: "u", ResourceVersion: version},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("one"), LeaseDurationSeconds: new(int32(30)), RenewTime: &metav1.MicroTime{Time: epoch}},
		}
	}
	w := NewWatcher(WatcherOptions{Clock: clocktesting.NewFakeClock(epoch), Log: testr.New(t)})
	w.learn(&coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}})
	w.observe(event("90"), false)
	if w.Excluded("a") {
		t.Error("a Lease that is gone excludes its namespace")
	}
	w.observe(event("101"), false)
	if !w.Excluded("a") {
		t.Error("a new Lease does not")
	}
	w.observe(event("101"), true) // what a watch that was cut knows last
	if d, _ := w.due(after(straggle)); len(d.free) != 1 {
		t.Error("a deletion goes unnoticed")
	}
}

func TestNamespacesThatAreFreeAreForgotten(t *testing.T) {
	t.Parallel()
	lease := coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, Namespace: "a", UID: "u", ResourceVersion: "90"}, // without a duration
	}
	w := NewWatcher(WatcherOptions{Clock: clocktesting.NewFakeClock(epoch), Log: testr.New(t)})
	w.learn(&coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []coordinationv1.Lease{lease}})
	if len(w.tenancies) != 1 || w.Excluded("a") {
		t.Error("a Lease that claims nothing excludes its namespace, or is not known")
	}
	w.learn(&coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "101"}})
	if len(w.tenancies) != 0 {
		t.Error("a Lease that is gone is remembered")
	}
}
