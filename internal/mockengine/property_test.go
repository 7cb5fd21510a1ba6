// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"math/rand/v2"
	"testing"
)

// TestEverySequenceGetsAllItsTokensAndLeavesNothing plays schedulers of random sizes with random requests, some of which begin
// alike and some of which are given up.
func TestEverySequenceGetsAllItsTokensAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 0))
		limits := Limits{
			MaxSequences: 1 + dice.IntN(6), MaxBatchedTokens: 1 + dice.IntN(40), Blocks: 1 + dice.IntN(30), BlockSize: 1 + dice.IntN(6),
		}
		s := NewScheduler(limits, plain())
		wanted, got := map[uint64]int{}, map[uint64]int{}
		for id := range uint64(40) {
			seq := Sequence{
				ID: id, Prompt: 1 + dice.IntN(50), Output: 1 + dice.IntN(20), Prefix: family(dice.Uint64N(3)), Prefilled: dice.IntN(4) == 0,
			}
			if s.Add(seq) == nil {
				wanted[id] = seq.Output
			}
			for range dice.IntN(5) {
				step(t, s, seed, got)
			}
			if dice.IntN(10) == 0 {
				gone := dice.Uint64N(id + 1)
				s.Remove(gone)
				delete(wanted, gone)
			}
		}
		for steps := 0; s.Busy(); steps++ {
			if steps > 100_000 {
				t.Fatalf("seed %d: it goes round in circles: %+v", seed, s.Usage())
			}
			step(t, s, seed, got)
		}
		for id, tokens := range wanted {
			if got[id] != tokens {
				t.Errorf("seed %d: sequence %d got %d of %d tokens", seed, id, got[id], tokens)
			}
		}
		if u := s.Usage(); u.Blocks != 0 {
			t.Errorf("seed %d: %d blocks are in use by nobody", seed, u.Blocks)
		}
	}
}

// family are the hashes of prompts that begin alike.
func family(of uint64) []uint64 {
	hashes := make([]uint64, 60)
	for i := range hashes {
		hashes[i] = of*1000 + uint64(i)
	}
	return hashes
}

// step plays one iteration and checks what holds after each.
func step(t *testing.T, s *Scheduler, seed uint64, got map[uint64]int) {
	t.Helper()
	_, tokens := s.Step()
	for _, token := range tokens {
		if token.Index != got[token.ID] {
			t.Fatalf("seed %d: token %d of sequence %d came when %d were there", seed, token.Index, token.ID, got[token.ID])
		}
		got[token.ID]++
	}
	held := 0
	for _, r := range s.active {
		held += r.own
	}
	shared := 0
	for _, b := range s.memory.known {
		if b.users < 0 || (b.users == 0) != (b.place != nil) {
			t.Fatalf("seed %d: block %d has %d users", seed, b.hash, b.users)
		}
		if b.users > 0 {
			shared++
		}
	}
	if u := s.Usage(); u.Running > s.limits.MaxSequences || held+shared != u.Blocks || s.memory.free < 0 {
		t.Fatalf("seed %d: %d own and %d shared blocks, usage %+v, free %d", seed, held, shared, u, s.memory.free)
	}
}
