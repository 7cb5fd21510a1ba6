// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recent remembers what this process wrote until the informer cache shows it, so that a reconcile never acts
// on a world older than its own writes. Being wrong is cheap by design: at worst an idempotent request is repeated.
package recent

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// trustUnseen is how long an object that was written but is not in the cache is believed to exist. A watch that was
// cut between our write and somebody's delete shows neither, so the belief has to end by itself.
const trustUnseen = 5 * time.Second

// Key addresses one object across kinds.
type Key struct {
	schema.GroupKind
	types.NamespacedName
}

// KeyOf is the key of an object of the given kind.
func KeyOf(gk schema.GroupKind, obj client.Object) Key {
	return Key{GroupKind: gk, NamespacedName: client.ObjectKeyFromObject(obj)}
}

// String reads well in a sentence: the kind, then the name.
func (k Key) String() string { return k.Kind + " " + k.Name }

// linger is how long a write is kept in mind after the cache has shown it. Whoever read the cache before that may ask only
// afterwards, and would take the past for what is: of an object's own status nobody would tell it better.
const linger = time.Second

type entry struct {
	written client.Object // what the server answered, nil after a delete
	deleted types.UID
	at      time.Time
	shown   time.Time // since when the cache has it, zero before
}

// Store holds the writes that the cache has not confirmed yet. It is safe for concurrent use.
type Store struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	entries map[Key]entry
	swept   time.Time
}

// NewStore returns an empty store.
func NewStore(c clock.PassiveClock) *Store {
	return &Store{clock: c, entries: map[Key]entry{}, swept: c.Now()}
}

// Wrote records the server's answer to a create, apply or update. Answers to concurrent requests may arrive in either
// order; the later state stays.
func (s *Store) Wrote(k Key, answer client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[k]; e.written != nil && older(answer, e.written) {
		return
	}
	s.entries[k] = entry{written: answer, at: s.clock.Now()}
	s.sweep()
}

// Deleted records that the object with this UID was asked to go.
func (s *Store) Deleted(k Key, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[k] = entry{deleted: uid, at: s.clock.Now()}
	s.sweep()
}

// Shown notes that the cache is seen to have a write, so that it is soon forgotten: an object that came to rest is not looked
// at any more, and its last answer must not stay in memory for that.
func (s *Store) Shown(k Key, cached client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[k]; e.written != nil && !older(cached, e.written) {
		s.confirm(k, e)
	}
	s.sweep()
}

// Gone forgets a write of an object that is seen to have gone after it, or to have left what the cache selects. Who reads the cache
// now finds neither, and would believe for a while in an object that somebody took away as soon as it was made.
func (s *Store) Gone(k Key, last client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[k]; e.written != nil && !older(last, e.written) {
		delete(s.entries, k)
	}
	s.sweep()
}

func (s *Store) confirm(k Key, e entry) {
	if e.shown.IsZero() {
		e.shown = s.clock.Now()
		s.entries[k] = e
	}
}

// left is for how long an entry counts.
func (s *Store) left(e entry) time.Duration {
	if !e.shown.IsZero() {
		return linger - s.clock.Since(e.shown)
	}
	return trustUnseen - s.clock.Since(e.at)
}

// sweep drops what the cache has, and what nobody showed or asked for again.
func (s *Store) sweep() {
	if s.clock.Since(s.swept) < linger {
		return
	}
	s.swept = s.clock.Now()
	for k, e := range s.entries {
		if s.left(e) <= 0 {
			delete(s.entries, k)
		}
	}
}

// Newest returns the later of what the cache holds (nil for nothing) and what this process wrote. A positive duration
// asks to be called again by then: the answer rests on a write that the cache has not shown yet.
func (s *Store) Newest(k Key, cached client.Object) (client.Object, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[k]
	if !ok {
		return cached, 0
	}
	left := s.left(e)
	if left <= 0 {
		delete(s.entries, k)
		return cached, 0
	}
	if e.written == nil {
		if cached == nil || cached.GetUID() != e.deleted {
			delete(s.entries, k)
			return cached, 0
		}
		return nil, left
	}
	switch isShown := !e.shown.IsZero(); {
	// Either the cache was read before it had the write, or the object is gone and nobody who watches its kind said so. To make it
	// once more would be wrong in one case, to take it for there for ever in the other.
	case cached == nil && isShown:
		return e.written, left
	// The answer itself, handed back by somebody who looks at what a pass has left, is no sign that the cache has it.
	case cached != nil && cached != e.written && !older(cached, e.written):
		s.confirm(k, e)
		return cached, 0
	case isShown:
		return e.written, 0
	}
	return e.written, left
}

// older tells whether a is a previous state of b. Versions that cannot be ordered count as equal, which makes the cache win.
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}
