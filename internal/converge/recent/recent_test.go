// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package recent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func service(uid, version string) client.Object {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: types.UID(uid), ResourceVersion: version}}
}

func TestAnAnswerThatIsHandedBackIsNotTakenForTheCache(t *testing.T) {
	t.Parallel()
	s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
	answer := service("a", "9")
	s.Wrote(k, answer)
	s.Newest(k, answer) // as a pass does that looks at what it left
	if newest, _ := s.Newest(k, nil); newest != answer {
		t.Errorf("the next pass, whose cache is behind, sees %v", newest)
	}
}

func TestNewestPrefersOurWriteUntilTheCacheHasIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		write  func(*Store, Key)
		cached client.Object
		want   string // resource version, "" for none
		wait   bool
	}{
		"nothing written, cache rules":           {cached: service("a", "7"), want: "7"},
		"written, not in the cache":              {write: wrote("a", "9"), want: "9", wait: true},
		"written, cache is behind":               {write: wrote("a", "9"), cached: service("a", "7"), want: "9", wait: true},
		"versions are numbers, not text":         {write: wrote("a", "10"), cached: service("a", "9"), want: "10", wait: true},
		"written, cache has it":                  {write: wrote("a", "9"), cached: service("a", "9"), want: "9"},
		"written, cache is ahead":                {write: wrote("a", "9"), cached: service("b", "12"), want: "12"},
		"deleted, cache still shows it":          {write: removed("a"), cached: service("a", "7"), wait: true},
		"deleted, cache confirms":                {write: removed("a")},
		"deleted, somebody made another already": {write: removed("a"), cached: service("b", "12"), want: "12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
			if tc.write != nil {
				tc.write(s, k)
			}
			got, wait := s.Newest(k, tc.cached)
			version := ""
			if got != nil {
				version = got.GetResourceVersion()
			}
			if version != tc.want || (wait > 0) != tc.wait {
				t.Errorf("got version %q and wait %v, want %q and wait %v", version, wait, tc.want, tc.wait)
			}
		})
	}
}

func TestAnUnseenWriteIsBelievedForAWhileOnly(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	s, k := NewStore(c), key()
	s.Wrote(k, service("a", "9"))
	c.SetTime(c.Now().Add(trustUnseen + time.Millisecond))
	if got, wait := s.Newest(k, nil); got != nil || wait != 0 {
		t.Errorf("got %v and wait %v for an object nobody has seen for too long, want nothing", got, wait)
	}
}

func TestWhatNobodyAsksForAgainIsDropped(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(time.Now())
	s := NewStore(c)
	s.Wrote(key(), service("a", "9"))
	c.SetTime(c.Now().Add(trustUnseen))
	other := key()
	other.Name = "other"
	s.Wrote(other, service("b", "10"))
	if len(s.entries) != 1 {
		t.Errorf("%d entries are kept, want only the latest", len(s.entries))
	}
}

func TestOfTwoAnswersTheLaterStateStays(t *testing.T) {
	t.Parallel()
	s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
	s.Wrote(k, service("a", "11"))
	s.Wrote(k, service("a", "10"))
	if got, _ := s.Newest(k, nil); got.GetResourceVersion() != "11" {
		t.Errorf("got version %s, want 11", got.GetResourceVersion())
	}
}

func key() Key { return KeyOf(schema.GroupKind{Kind: "Service"}, service("a", "1")) }

func wrote(uid, version string) func(*Store, Key) {
	return func(s *Store, k Key) { s.Wrote(k, service(uid, version)) }
}

func removed(uid string) func(*Store, Key) {
	return func(s *Store, k Key) { s.Deleted(k, types.UID(uid)) }
}

func TestAWriteIsForgottenSoonAfterTheCacheShowsIt(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s, k := NewStore(clock), key()
	s.Shown(k, service("a", "1")) // of what nobody wrote
	s.Wrote(k, service("a", "9"))
	s.Shown(k, service("a", "8"))
	if got, _ := s.Newest(k, service("a", "8")); got.GetResourceVersion() != "9" {
		t.Errorf("a cache that lags shows version %s, want that which was written", got.GetResourceVersion())
	}
	s.Shown(k, service("a", "9"))
	clock.SetTime(clock.Now().Add(linger))
	s.Shown(Key{}, service("another", "10"))
	if len(s.entries) != 0 {
		t.Errorf("%d writes are remembered that the cache has", len(s.entries))
	}
}

// Whoever asks may have read the cache before it showed a write. Of its own status nobody tells an object's controller.
func TestWhoReadTheCacheBeforeItShowedAWriteDoesNotGetThePast(t *testing.T) {
	t.Parallel()
	for name, show := range map[string]func(*Store, Key){
		"an event showed it":            func(s *Store, k Key) { s.Shown(k, service("a", "9")) },
		"somebody else read it earlier": func(s *Store, k Key) { s.Newest(k, service("a", "9")) },
	} {
		s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
		s.Wrote(k, service("a", "9"))
		read := service("a", "8")
		show(s, k)
		if got, wake := s.Newest(k, read); got.GetResourceVersion() != "9" || wake != 0 {
			t.Errorf("%s: got version %s, asked again after %s, want 9 and nothing to wait for", name, got.GetResourceVersion(), wake)
		}
	}
}

// A cache that had nothing when it was read may have been read too early, or the object is gone. Who asks is to ask once more.
func TestWhoReadTheCacheBeforeItShowedACreationDoesNotMissIt(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	s, k := NewStore(clock), key()
	s.Wrote(k, service("a", "9"))
	s.Shown(k, service("a", "9"))
	if got, wake := s.Newest(k, nil); got == nil || wake != linger {
		t.Errorf("got %v, asked again after %s, want what was written and to ask after %s", got, wake, linger)
	}
	clock.SetTime(clock.Now().Add(linger))
	if got, wake := s.Newest(k, nil); got != nil || wake != 0 {
		t.Errorf("what the cache does not have any more is believed in, to be asked again after %s", wake)
	}
}

func TestADeletionIsNotForgottenBecauseTheCacheStillShowsTheObject(t *testing.T) {
	t.Parallel()
	s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
	s.Deleted(k, "a")
	s.Shown(k, service("a", "9"))
	if got, _ := s.Newest(k, service("a", "9")); got != nil {
		t.Errorf("what was deleted is back: %v", got)
	}
}

func TestWhatWentAfterItWasWrittenIsNotBelievedIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		last string // version in which it was last seen
		want bool
	}{
		"a state from before the write went": {last: "8", want: true},
		"what was written went":              {last: "9"},
		"a later state went":                 {last: "12"},
	} {
		s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
		s.Wrote(k, service("a", "9"))
		s.Gone(k, service("a", tc.last))
		if got, _ := s.Newest(k, nil); (got != nil) != tc.want {
			t.Errorf("%s: believed in: %t", name, got != nil)
		}
	}
}

func TestADeletionOfOursIsNotForgottenBecauseAnEarlierObjectWent(t *testing.T) {
	t.Parallel()
	s, k := NewStore(clocktesting.NewFakePassiveClock(time.Now())), key()
	s.Deleted(k, "a")
	s.Gone(k, service("b", "9"))
	if got, _ := s.Newest(k, service("a", "8")); got != nil {
		t.Errorf("what was deleted is back: %v", got)
	}
}
