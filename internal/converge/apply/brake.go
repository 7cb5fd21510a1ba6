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
// three more, and leaves nothing wrong for longer than the distance once the other side gives up. Content that comes back after another
// had replaced it counts alike while nobody who may has said so: its owner is fought over, and what the child is to be is right and
// wrong in turn. What a user wants, to and fro as it may be, is never held.
const (
	fightWindow       = time.Minute
	freeCorrections   = 3
	correctionSpacing = 15 * time.Second
)

// write is content that a child got, or had.
type write struct {
	hash string
	at   time.Time
	kind kindOfWrite
}

type kindOfWrite int

const (
	had   kindOfWrite = iota // what was there before the first write that is remembered
	fresh                    // content that was not there within the last minute
	again                    // content that was
)

// change is content that a child got in the place of what it had before, which may be the same.
type change struct {
	owner types.UID
	// word stands for what the owner's own controller wants of it. The owner may be changed under the same word by somebody who
	// has no say in it. It is empty for an owner that has no controller: whatever that says, its user says.
	word         string
	before, hash string
}

// fight is what is remembered of writes of one child.
type fight struct {
	owner types.UID
	word  string
	// writes are those within the window, oldest first.
	writes []write
	// flaps tells that content came back that another had replaced. From then on it counts when that was written, too.
	flaps bool
	// with tells who fights and over what, empty while it is no fight; hash is the content that is fought over, empty for any.
	with, hash string
}

// knows tells whether a child had some content within the window.
func (f fight) knows(hash string) bool {
	return slices.ContainsFunc(f.writes, func(w write) bool { return w.hash == hash })
}

// counted returns how many writes are part of a fight, and when the last was.
func (f fight) counted() (n int, last time.Time) {
	for _, w := range f.writes {
		if w.kind == again || w.kind == fresh && f.flaps {
			n, last = n+1, w.at
		}
	}
	return n, last
}

// isOver tells whether a fight is not, or no longer, about some content. A change of what is wanted has nothing to do with it.
func (f fight) isOver(hash string) bool { return f.with == "" || f.hash != "" && f.hash != hash }

// under returns what counts under a word. A new one settles what was to and fro; corrections count whatever is wanted.
func (f fight) under(word string) fight {
	if f.word == word || word == unmarked {
		return f
	}
	f.word, f.flaps = word, false
	f.writes = slices.Clone(f.writes)
	for i := range f.writes {
		f.writes[i].hash = ""
	}
	if f.hash == "" {
		f.with = ""
	}
	return f
}

// brake slows corrections down. It knows only what was written within the last minute.
type brake struct {
	mu     sync.Mutex
	fights map[recent.Key]fight
	swept  time.Time
}

func newBrake() *brake { return &brake{fights: map[recent.Key]fight{}} }

// isBack tells whether a child had some content within the last minute, under the word that holds now. From then on that is what
// counts: a new word is heard before anything waits.
func (b *brake) isBack(key recent.Key, word, hash string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, now).under(word)
	if _, known := b.fights[key]; known {
		b.fights[key] = f
	}
	return word != "" && f.knows(hash)
}

// wait returns how long one more correction has to wait, and whether it is a fight with somebody whose name is not known.
func (b *brake) wait(key recent.Key, hash string, now time.Time) (wait time.Duration, unnamed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, now)
	n, last := f.counted()
	if n < freeCorrections {
		return 0, false
	}
	return max(0, correctionSpacing-now.Sub(last)), f.isOver(hash)
}

// name remembers who fights over some content, or over any.
func (b *brake) name(key recent.Key, hash, with string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, known := b.fights[key]; known {
		f.hash, f.with = hash, with
		b.fights[key] = f
	}
}

// wrote remembers a change that was made. One that its user wants is none of ours to count.
func (b *brake) wrote(key recent.Key, c change, now time.Time) {
	isDrift := c.before == c.hash
	if c.word == "" && !isDrift {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, now).under(c.word)
	if !isDrift && !f.knows(c.before) {
		f.writes = append(f.writes, write{c.before, now, had})
	}
	kind := fresh
	if isDrift || f.knows(c.hash) {
		kind = again
	}
	f.flaps = f.flaps || kind == again && !isDrift
	f.owner, f.writes = c.owner, append(f.writes, write{c.hash, now, kind})
	b.fights[key] = f
	b.sweep(now)
}

// fighting tells with whom a child is being fought over, empty for nobody, and when that is over unless it goes on.
func (b *brake) fighting(key recent.Key, hash string, now time.Time) (with string, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.latest(key, now)
	if f.isOver(hash) {
		return "", 0
	}
	return f.with, fightWindow - now.Sub(f.writes[len(f.writes)-1].at)
}

// latest returns what counts of a fight: it is over when a minute passed without a write. Who fights is known until then, so that
// what is told of it does not come and go.
func (b *brake) latest(key recent.Key, now time.Time) fight {
	f, known := b.fights[key]
	if !known {
		return fight{}
	}
	if now.Sub(f.writes[len(f.writes)-1].at) >= fightWindow {
		delete(b.fights, key)
		return fight{}
	}
	f.writes = slices.DeleteFunc(slices.Clone(f.writes), func(w write) bool { return now.Sub(w.at) >= fightWindow })
	b.fights[key] = f
	return f
}

// sweep drops what came to rest and is not asked about again.
func (b *brake) sweep(now time.Time) {
	if now.Sub(b.swept) < fightWindow {
		return
	}
	b.swept = now
	for key := range b.fights {
		b.latest(key, now)
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
