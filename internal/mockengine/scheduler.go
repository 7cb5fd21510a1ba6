// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"fmt"
	"slices"
	"time"
)

// Limits are the size of an engine.
type Limits struct {
	// MaxSequences run at once; MaxBatchedTokens are computed in one iteration.
	MaxSequences, MaxBatchedTokens int
	// Blocks of BlockSize tokens each are the memory of the cache.
	Blocks, BlockSize int
}

// DefaultLimits are those of the engines that are simulated.
func DefaultLimits() Limits {
	return Limits{MaxSequences: 256, MaxBatchedTokens: 8192, Blocks: 16384, BlockSize: 64}
}

// reservedShare of the blocks, one in so many, is kept for sequences that run already: whoever starts without room to grow
// is thrown out soon after.
const reservedShare = 100

// Sequence is one request as a scheduler sees it.
type Sequence struct {
	// ID tells sequences apart; it is the caller's.
	ID uint64
	// Prompt and Output are numbers of tokens.
	Prompt, Output int
	// Prefix are hashes of the full blocks of the prompt, each over everything up to its end.
	Prefix []uint64
	// Prefilled says that the cache of the prompt comes from another engine.
	Prefilled bool
}

// Token says that a sequence got its next token.
type Token struct {
	ID uint64 `json:"id"`
	// Index counts from zero. Last is set with the last one.
	Index int  `json:"index"`
	Last  bool `json:"last"`
}

// Scheduler decides what an engine computes in each iteration: tokens for those that run, then prompts, in pieces, of those
// that wait. It is pure, knows no clock and is not safe for concurrent use.
type Scheduler struct {
	limits  Limits
	timing  Timing
	memory  *blocks
	waiting []*running
	active  []*running

	preemptions int
}

// running is a sequence and how far it is.
type running struct {
	Sequence
	// made is the number of tokens that were produced, computed of those that are in the cache.
	made, computed int
	// own is the number of blocks without a hash; known are the hashes of the others.
	own   int
	known []uint64
	// tokens are computed for it in the current iteration.
	tokens int
}

// NewScheduler returns a scheduler without work.
func NewScheduler(limits Limits, timing Timing) *Scheduler {
	return &Scheduler{limits: limits, timing: timing, memory: newBlocks(limits.Blocks)}
}

// Add has a sequence wait for its turn. It fails for one that would never fit.
func (s *Scheduler) Add(seq Sequence) error {
	if seq.Prompt < 1 || seq.Output < 1 {
		return fmt.Errorf("a sequence needs a prompt and an output, not %d and %d tokens", seq.Prompt, seq.Output)
	}
	usable := s.limits.Blocks - s.reserve()
	if need := s.blocksFor(seq.Prompt + seq.Output); need > usable {
		return fmt.Errorf("%d tokens do not fit into the cache, which has room for %d", seq.Prompt+seq.Output, usable*s.limits.BlockSize)
	}
	full := seq.Prompt / s.limits.BlockSize
	seq.Prefix = seq.Prefix[:min(len(seq.Prefix), full)]
	s.waiting = append(s.waiting, &running{Sequence: seq})
	return nil
}

// Remove forgets a sequence whose client has gone.
func (s *Scheduler) Remove(id uint64) {
	same := func(r *running) bool { return r.ID == id }
	if i := slices.IndexFunc(s.active, same); i >= 0 {
		s.release(s.active[i])
		s.active = slices.Delete(s.active, i, i+1)
	}
	s.waiting = slices.DeleteFunc(s.waiting, same)
}

// Busy tells whether there is anything to do.
func (s *Scheduler) Busy() bool { return len(s.waiting)+len(s.active) > 0 }

// Usage is the load of a scheduler.
type Usage struct {
	Running, Waiting, Preemptions int
	// Blocks are in use of Total.
	Blocks, Total int
}

// Usage returns the load at this moment.
func (s *Scheduler) Usage() Usage {
	return Usage{
		Running: len(s.active), Waiting: len(s.waiting), Preemptions: s.preemptions,
		Blocks: s.limits.Blocks - s.memory.available(), Total: s.limits.Blocks,
	}
}

// Step computes one iteration: how long it takes and the tokens that exist at its end.
func (s *Scheduler) Step() (time.Duration, []Token) {
	budget := s.limits.MaxBatchedTokens
	preempted := s.continueActive(&budget)
	if !preempted {
		s.admit(&budget)
	}
	took := s.duration()
	return took, s.finish()
}

// continueActive plans tokens for those that run. When the memory is full, whoever came last starts again later.
func (s *Scheduler) continueActive(budget *int) (preempted bool) {
	for i := 0; i < len(s.active); i++ {
		r := s.active[i]
		want := min(r.missing(), *budget)
		for !s.grow(r, want) {
			s.preempt()
			preempted = true
			if i == len(s.active) {
				return preempted // it was the last one itself
			}
		}
		r.tokens = want
		*budget -= want
	}
	return preempted
}

// admit starts those that wait, in their order, as long as there is room.
func (s *Scheduler) admit(budget *int) {
	for len(s.waiting) > 0 && len(s.active) < s.limits.MaxSequences && *budget > 0 {
		r := s.waiting[0]
		if !s.start(r, *budget) {
			return
		}
		*budget -= r.tokens
		s.waiting = s.waiting[1:]
		s.active = append(s.active, r)
	}
}

// start gives a waiting sequence what the cache knows of it and the first of what it does not.
func (s *Scheduler) start(r *running, budget int) bool {
	hits, idle := s.memory.match(r.Prefix)
	computed := hits * s.limits.BlockSize
	if r.Prefilled && r.made == 0 {
		computed = r.Prompt - 1
	}
	// The last token is always computed: without it there is nothing to continue from.
	computed = min(computed, r.Prompt+r.made-1)
	tokens := min(r.Prompt+r.made-computed, budget)
	need := s.blocksFor(computed+tokens) - hits
	if need > s.memory.available()-idle-s.reserve() {
		return false
	}
	r.known = slices.Clone(r.Prefix[:hits])
	s.memory.share(r.known)
	s.memory.take(need)
	r.own, r.computed, r.tokens = need, computed, tokens
	return true
}

// grow makes room for more tokens of a sequence.
func (s *Scheduler) grow(r *running, tokens int) bool {
	need := s.blocksFor(r.computed+tokens) - r.own - len(r.known)
	if need <= 0 {
		return true
	}
	if need > s.memory.available() {
		return false
	}
	s.memory.take(need)
	r.own += need
	return true
}

// preempt throws the youngest out. It keeps its place at the head of the queue and what it has said, and computes the rest
// again.
func (s *Scheduler) preempt() {
	last := s.active[len(s.active)-1]
	s.active = s.active[:len(s.active)-1]
	s.release(last)
	last.computed, last.tokens = 0, 0
	s.waiting = slices.Insert(s.waiting, 0, last)
	s.preemptions++
}

func (s *Scheduler) release(r *running) {
	s.memory.leave(r.known)
	s.memory.give(r.own)
	r.known, r.own = nil, 0
}

func (s *Scheduler) duration() time.Duration {
	var prompt, decoding, kvTokens, handoff int
	for _, r := range s.active {
		arriving := r.Prefilled && r.made == 0
		switch {
		case r.tokens == 0: // the others have used the budget up
		case arriving || r.made > 0 && r.missing() == 1:
			decoding++
			kvTokens += r.computed
		default:
			prompt += r.tokens
		}
		if arriving {
			handoff = max(handoff, r.Prompt) // transfers run beside each other
		}
	}
	return s.timing.Iteration(prompt, decoding, kvTokens) + s.timing.Handoff(handoff)
}

// finish books what was computed, collects the new tokens and lets those go that are complete.
func (s *Scheduler) finish() []Token {
	var made []Token
	s.active = slices.DeleteFunc(s.active, func(r *running) bool {
		if r.tokens == 0 {
			return false
		}
		r.computed += r.tokens
		r.tokens = 0
		s.remember(r)
		if r.missing() > 0 {
			return false // more of the prompt to read
		}
		last := r.made == r.Output-1
		made = append(made, Token{ID: r.ID, Index: r.made, Last: last})
		r.made++
		if last {
			s.release(r)
		}
		return last
	})
	return made
}

// remember makes the full blocks of a prompt known.
func (s *Scheduler) remember(r *running) {
	full := min(r.computed/s.limits.BlockSize, len(r.Prefix))
	for len(r.known) < full && s.memory.learn(r.Prefix[len(r.known)]) {
		r.known = append(r.known, r.Prefix[len(r.known)])
		r.own--
	}
}

// missing is how many tokens are to be computed before the next one can be made.
func (r *running) missing() int { return r.Prompt + r.made - r.computed }

func (s *Scheduler) blocksFor(tokens int) int {
	return (tokens + s.limits.BlockSize - 1) / s.limits.BlockSize
}

func (s *Scheduler) reserve() int { return s.limits.Blocks / reservedShare }
