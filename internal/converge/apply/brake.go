// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// A child that somebody else changes is put right at once, and again. Who does so for the fourth time within a minute is in a
// fight that neither side can win: from then on corrections keep a distance. That makes six a minute at most, three at once and
// three more, and leaves nothing wrong for longer than the distance once the other side gives up.
const (
	fightWindow       = time.Minute
	freeCorrections   = 3
	correctionSpacing = 15 * time.Second
)

// fight is what is remembered of corrections of one child.
type fight struct {
	owner types.UID
	// hash is the content that was put back. Another one is another intent, which has nothing to do with a fight.
	hash string
	// at are the corrections within the window, oldest first.
	at []time.Time
	// with tells who fights and over what, empty while it is no fight.
	with string
}

// brake slows corrections down. It knows only what was corrected within the last minute.
type brake struct {
	mu     sync.Mutex
	fights map[recent.Key]fight
	swept  time.Time
}

func newBrake() *brake { return &brake{fights: map[recent.Key]fight{}} }

// wait returns how long one more correction has to wait, and whether it is a fight with somebody whose name is not known.
func (b *brake) wait(key recent.Key, hash string, now time.Time) (wait time.Duration, unnamed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, hash, now)
	if len(f.at) < freeCorrections {
		return 0, false
	}
	return max(0, correctionSpacing-now.Sub(f.at[len(f.at)-1])), f.with == ""
}

// name remembers who fights.
func (b *brake) name(key recent.Key, with string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, known := b.fights[key]; known {
		f.with = with
		b.fights[key] = f
	}
}

// corrected remembers that a child got its content once more.
func (b *brake) corrected(key recent.Key, owner types.UID, hash string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, hash, now)
	f.owner, f.hash, f.at = owner, hash, append(f.at, now)
	b.fights[key] = f
	b.sweep(now)
}

// fighting tells with whom a child is being fought over, empty for nobody, and when that is over unless it goes on.
func (b *brake) fighting(key recent.Key, hash string, now time.Time) (with string, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, hash, now)
	if f.with == "" {
		return "", 0
	}
	return f.with, fightWindow - now.Sub(f.at[len(f.at)-1])
}

// latest returns what counts of a fight: it is over when a minute passed without a correction, or the content is another. Who
// fights is known until then, so that what is told of it does not come and go.
func (b *brake) latest(key recent.Key, hash string, now time.Time) fight {
	f, known := b.fights[key]
	if !known {
		return fight{}
	}
	if f.hash != hash || now.Sub(f.at[len(f.at)-1]) >= fightWindow {
		delete(b.fights, key)
		return fight{}
	}
	f.at = slices.DeleteFunc(slices.Clone(f.at), func(at time.Time) bool { return now.Sub(at) >= fightWindow })
	b.fights[key] = f
	return f
}

// sweep drops what came to rest and is not asked about again.
func (b *brake) sweep(now time.Time) {
	if now.Sub(b.swept) < fightWindow {
		return
	}
	b.swept = now
	for key, f := range b.fights {
		b.latest(key, f.hash, now)
	}
}

// dropOwner forgets the fights over children of an owner that is gone.
func (b *brake) dropOwner(owner types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, f := range b.fights {
		if f.owner == owner {
			delete(b.fights, key)
		}
	}
}
