// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package statusio

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

func TestTransitionsAreWrittenAtOnceAndProgressOnceASecond(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := NewWriter(nil, nil, recent.NewStore(clock), clock)
	g := &v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{UID: "g"}}
	progress, transition := Change{After: g}, Change{After: g, Transition: true}

	if wait := w.pace(progress); wait != 0 {
		t.Errorf("the first write waits %s", wait)
	}
	w.written(g.UID)
	clock.SetTime(clock.Now().Add(300 * time.Millisecond))
	if wait := w.pace(progress); wait != 700*time.Millisecond {
		t.Errorf("progress after 300ms waits %s, want the rest of the second", wait)
	}
	if wait := w.pace(transition); wait != 0 {
		t.Errorf("a transition waits %s", wait)
	}
	clock.SetTime(clock.Now().Add(700 * time.Millisecond))
	if wait := w.pace(progress); wait != 0 {
		t.Errorf("progress after a second waits %s", wait)
	}
	w.written(g.UID)
	w.Forget(g.UID)
	if len(w.last) != 0 {
		t.Errorf("a deleted object is remembered")
	}
}

func TestAFirstStatusWithoutNewsWaitsForNewsButNotForLong(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w := NewWriter(nil, nil, recent.NewStore(clock), clock)
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{UID: "c"}}
	said := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}}
	silent, news := Change{After: c, Is: said, Unheard: true}, Change{After: c, Is: said}
	later := Change{After: c, Was: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}, Is: said, Unheard: true}

	if wait := w.pace(silent); wait != firstWord {
		t.Errorf("a first status without news waits %s, want %s", wait, firstWord)
	}
	clock.SetTime(clock.Now().Add(firstWord / 4))
	if wait := w.pace(silent); wait != firstWord*3/4 {
		t.Errorf("it waits %s after a quarter of its time, want the rest: passes in between must not put it off", wait)
	}
	if wait := w.pace(news); wait != 0 {
		t.Errorf("news waits %s", wait)
	}
	if wait := w.pace(later); wait != 0 {
		t.Errorf("a status that contradicts an earlier one waits %s", wait)
	}
	clock.SetTime(clock.Now().Add(firstWord))
	if wait := w.pace(silent); wait != 0 {
		t.Errorf("a first status without news still waits %s when its time is over", wait)
	}
	w.written(c.UID)
	w.pace(silent)
	w.Forget(c.UID)
	if len(w.unheard) != 0 {
		t.Errorf("a deleted object is remembered")
	}
}

func TestAnswerPrefersErrorsThenTheEarlierWish(t *testing.T) {
	t.Parallel()
	held := reconcile.Result{RequeueAfter: time.Second}
	for name, tc := range map[string]struct {
		held reconcile.Result
		wake time.Duration
		err  error
		want time.Duration
	}{
		"nothing":       {},
		"held":          {held: held, want: time.Second},
		"wake":          {wake: time.Minute, want: time.Minute},
		"both":          {held: held, wake: time.Minute, want: time.Second},
		"wake is first": {held: held, wake: time.Millisecond, want: time.Millisecond},
		"error":         {held: held, err: errors.New("x")},
	} {
		got, err := Answer(tc.held, tc.wake, nil, tc.err)
		if got.RequeueAfter != tc.want || (err != nil) != (tc.err != nil) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestAnEventThatIsTooLongIsCutAndNotLost(t *testing.T) {
	t.Parallel()
	told := events.NewFakeRecorder(1)
	w := NewWriter(nil, told, nil, nil)
	w.Tell(&v1alpha1.DynamoGraphDeployment{}, Event{Type: "Warning", Reason: "R", Note: strings.Repeat("a", maxNote-1) + "\u00e4 and more"})
	if got, want := <-told.Events, "Warning R "+strings.Repeat("a", maxNote-1); got != want {
		t.Errorf("told: %q", got)
	}
}

// line is an API server whose answers may get lost. It counts what it is sent.
type line struct {
	client.SubResourceWriter
	broken bool
	sent   int
}

func (l *line) Status() client.SubResourceWriter { return l }

func (l *line) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	l.sent++
	if l.broken {
		return errors.New("connection reset")
	}
	return nil
}

func TestAStatusWhoseWriteFailedIsSentAgainWhateverTheCacheShows(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	api := &line{broken: true}
	w := NewWriter(api, nil, recent.NewStore(clock), clock)
	was := &v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{UID: "g"}}
	is := was.DeepCopy()
	is.Status.State = v1alpha1.GraphStatePending
	if _, err := w.Write(t.Context(), Change{Before: was, After: is, Transition: true}); err == nil || api.sent != 1 {
		t.Fatalf("%d requests, error %v", api.sent, err)
	}
	api.broken = false
	// The write may have been carried out. By now the status is what it was before, which is also what the cache still shows.
	for i, want := range []int{2, 2} {
		if _, err := w.Write(t.Context(), Change{Before: was, After: was.DeepCopy()}); err != nil || api.sent != want {
			t.Errorf("look %d: %d requests, want %d, error %v", i, api.sent, want, err)
		}
	}
}
