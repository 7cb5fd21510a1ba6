// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"container/list"
	"slices"
)

// blocks is the memory of an engine, in blocks of tokens. A block whose content is known by a hash is shared by all
// sequences that begin alike, and stays after the last of them until the room is needed.
type blocks struct {
	free  int
	known map[uint64]*block
	// idle are known blocks that nobody uses, the one used longest ago first.
	idle *list.List
}

type block struct {
	hash  uint64
	users int
	// place is where the block is among the idle ones; nil while it has users.
	place *list.Element
}

func newBlocks(total int) *blocks {
	return &blocks{free: total, known: map[uint64]*block{}, idle: list.New()}
}

// available is how many blocks can be had, by forgetting what nobody uses.
func (b *blocks) available() int { return b.free + b.idle.Len() }

// take gets n blocks that are nobody's. The caller has asked whether there are so many.
func (b *blocks) take(n int) {
	for b.free < n {
		oldest := b.idle.Remove(b.idle.Front()).(*block)
		delete(b.known, oldest.hash)
		b.free++
	}
	b.free -= n
}

// give returns n blocks without a hash.
func (b *blocks) give(n int) { b.free += n }

// match counts how many blocks at the beginning of a sequence are known, and how many of them are idle.
func (b *blocks) match(hashes []uint64) (known, idle int) {
	for _, hash := range hashes {
		found, ok := b.known[hash]
		if !ok {
			return known, idle
		}
		if found.users == 0 {
			idle++
		}
		known++
	}
	return known, idle
}

// share takes known blocks into use.
func (b *blocks) share(hashes []uint64) {
	for _, hash := range hashes {
		shared := b.known[hash]
		if shared.place != nil {
			b.idle.Remove(shared.place)
			shared.place = nil
		}
		shared.users++
	}
}

// learn turns a block that the caller holds into a known one. It reports false if the content was known already: then the
// caller keeps its own copy.
func (b *blocks) learn(hash uint64) bool {
	if _, ok := b.known[hash]; ok {
		return false
	}
	b.known[hash] = &block{hash: hash, users: 1}
	return true
}

// leave ends the use of known blocks. The end of a sequence is forgotten before its beginning, which more sequences share.
func (b *blocks) leave(hashes []uint64) {
	for _, hash := range slices.Backward(hashes) {
		left := b.known[hash]
		left.users--
		if left.users == 0 {
			left.place = b.idle.PushBack(left)
		}
	}
}
