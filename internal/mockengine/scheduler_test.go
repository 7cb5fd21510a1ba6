// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// plain takes a millisecond for each token of a prompt and ten for each round of decoding.
func plain() Timing {
	return Timing{
		Prefill: func(tokens int) time.Duration { return time.Duration(tokens) * time.Millisecond },
		Decode:  func(int, int) time.Duration { return 10 * time.Millisecond },
	}
}

func TestTheDefaultTimingIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	timing := DefaultTiming()
	for name, tc := range map[string]struct{ got, want time.Duration }{
		"a prompt of 1000 tokens":  {timing.Prefill(1000), 32101 * time.Microsecond},
		"an empty cache":           {timing.Decode(0, 0), 5740 * time.Microsecond},
		"a full cache":             {timing.Decode(decodeCapacity, 0), 34010 * time.Microsecond},
		"more than a full cache":   {timing.Decode(4*decodeCapacity, 0), 34010 * time.Microsecond},
		"nothing to do":            {timing.Iteration(0, 0, 0), 0},
		"a hand-off of 500 tokens": {timing.Handoff(500), 1024 * time.Microsecond},
	} {
		if diff := (tc.got - tc.want).Abs(); diff > time.Microsecond {
			t.Errorf("%s takes %s, want %s", name, tc.got, tc.want)
		}
	}
}

func TestPrefillAndDecodeAddUpOrOverlap(t *testing.T) {
	t.Parallel()
	timing := plain()
	if got := timing.Iteration(5, 2, 100); got != 15*time.Millisecond {
		t.Errorf("the sum is %s", got)
	}
	timing.Overlap = true
	if got := timing.Iteration(5, 2, 100); got != 10*time.Millisecond {
		t.Errorf("the longer part is %s", got)
	}
}

func small() Limits { return Limits{MaxSequences: 4, MaxBatchedTokens: 8, Blocks: 100, BlockSize: 4} }

func TestOneRequestIsPrefillAndThenDecode(t *testing.T) {
	t.Parallel()
	got, err := Simulate(NewScheduler(small(), plain()), []Arrival{{At: time.Second, Sequence: Sequence{ID: 7, Prompt: 6, Output: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{{
		ID: 7, Arrived: time.Second, First: time.Second + 6*time.Millisecond, Ended: time.Second + 36*time.Millisecond, Tokens: 4,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if got[0].TimeToFirstToken() != 6*time.Millisecond || got[0].InterTokenLatency() != 10*time.Millisecond {
		t.Errorf("latencies are %s and %s", got[0].TimeToFirstToken(), got[0].InterTokenLatency())
	}
}

func TestALongPromptIsReadInPieces(t *testing.T) {
	t.Parallel()
	s := NewScheduler(small(), plain())
	add(t, s, Sequence{ID: 1, Prompt: 20, Output: 1})
	var took []time.Duration
	for s.Busy() {
		d, _ := s.Step()
		took = append(took, d)
	}
	if diff := cmp.Diff([]time.Duration{8 * time.Millisecond, 8 * time.Millisecond, 4 * time.Millisecond}, took); diff != "" {
		t.Errorf("iterations (-want +got):\n%s", diff)
	}
}

func TestWhoDecodesGoesBeforeWhoWaits(t *testing.T) {
	t.Parallel()
	s := NewScheduler(small(), plain())
	add(t, s, Sequence{ID: 1, Prompt: 8, Output: 3})
	s.Step()
	add(t, s, Sequence{ID: 2, Prompt: 8, Output: 1})
	took, tokens := s.Step()
	if diff := cmp.Diff([]Token{{ID: 1, Index: 1}}, tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if want := 17 * time.Millisecond; took != want {
		t.Errorf("the mixed iteration took %s, want one token decoded and seven of the prompt read: %s", took, want)
	}
}

func TestOnlySoManySequencesRunAtOnce(t *testing.T) {
	t.Parallel()
	limits := small()
	limits.MaxSequences = 2
	s := NewScheduler(limits, plain())
	for id := range uint64(5) {
		add(t, s, Sequence{ID: id, Prompt: 1, Output: 2})
	}
	s.Step()
	if got := s.Usage(); got.Running != 2 || got.Waiting != 3 {
		t.Errorf("%d run and %d wait", got.Running, got.Waiting)
	}
	for s.Busy() {
		s.Step()
	}
	if got := s.Usage(); got.Blocks != 0 {
		t.Errorf("%d blocks are in use after everything has ended", got.Blocks)
	}
}

func TestWhenTheMemoryIsFullTheYoungestStartsAgainAndLosesNothing(t *testing.T) {
	t.Parallel()
	limits := Limits{MaxSequences: 4, MaxBatchedTokens: 64, Blocks: 8, BlockSize: 4}
	s := NewScheduler(limits, plain())
	add(t, s, Sequence{ID: 1, Prompt: 12, Output: 16})
	add(t, s, Sequence{ID: 2, Prompt: 12, Output: 16})
	seen := map[uint64][]int{}
	for steps := 0; s.Busy(); steps++ {
		if steps > 200 {
			t.Fatalf("the scheduler goes round in circles: %+v", s.Usage())
		}
		_, tokens := s.Step()
		for _, token := range tokens {
			seen[token.ID] = append(seen[token.ID], token.Index)
		}
	}
	if s.Usage().Preemptions == 0 {
		t.Error("nobody was thrown out although two of seven blocks each do not fit into eight")
	}
	for _, id := range []uint64{1, 2} {
		for i, index := range seen[id] {
			if index != i {
				t.Fatalf("sequence %d got tokens %v", id, seen[id])
			}
		}
		if len(seen[id]) != 16 {
			t.Errorf("sequence %d got %d tokens", id, len(seen[id]))
		}
	}
}

func TestASharedBeginningIsReadOnce(t *testing.T) {
	t.Parallel()
	limits := small()
	limits.MaxBatchedTokens = 100
	s := NewScheduler(limits, plain())
	add(t, s, Sequence{ID: 1, Prompt: 9, Output: 1, Prefix: []uint64{11, 12}})
	first, _ := s.Step()
	add(t, s, Sequence{ID: 2, Prompt: 10, Output: 1, Prefix: []uint64{11, 12}})
	second, _ := s.Step()
	add(t, s, Sequence{ID: 3, Prompt: 10, Output: 1, Prefix: []uint64{11, 99}})
	third, _ := s.Step()
	add(t, s, Sequence{ID: 4, Prompt: 8, Output: 1, Prefix: []uint64{11, 12}})
	whole, _ := s.Step()
	want := []time.Duration{9 * time.Millisecond, 2 * time.Millisecond, 6 * time.Millisecond, time.Millisecond}
	if diff := cmp.Diff(want, []time.Duration{first, second, third, whole}); diff != "" {
		t.Errorf("time to read (-want +got):\n%s", diff)
	}
	if got := s.Usage().Blocks; got != 0 {
		t.Errorf("%d blocks count as used by nobody", got)
	}
}

func TestWhatNobodyUsesIsForgottenWhenRoomIsNeeded(t *testing.T) {
	t.Parallel()
	s := NewScheduler(Limits{MaxSequences: 4, MaxBatchedTokens: 100, Blocks: 3, BlockSize: 4}, plain())
	add(t, s, Sequence{ID: 1, Prompt: 8, Output: 1, Prefix: []uint64{1, 2}})
	s.Step()
	add(t, s, Sequence{ID: 2, Prompt: 11, Output: 1})
	s.Step()
	add(t, s, Sequence{ID: 3, Prompt: 8, Output: 1, Prefix: []uint64{1, 2}})
	if took, _ := s.Step(); took != 8*time.Millisecond {
		t.Errorf("the forgotten prompt was read in %s", took)
	}
}

func TestAPromptThatWasReadElsewhereCostsItsTransfer(t *testing.T) {
	t.Parallel()
	timing := plain()
	timing.HandoffBytes, timing.HandoffRate = 1000, 1e6
	s := NewScheduler(small(), timing)
	add(t, s, Sequence{ID: 1, Prompt: 50, Output: 2, Prefilled: true})
	took, tokens := s.Step()
	if want := 10*time.Millisecond + 50*time.Millisecond; took != want {
		t.Errorf("the first iteration took %s, want %s", took, want)
	}
	if diff := cmp.Diff([]Token{{ID: 1, Index: 0}}, tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if took, _ := s.Step(); took != 10*time.Millisecond {
		t.Errorf("the second iteration took %s", took)
	}
}

func TestWhatNeverFitsIsRefused(t *testing.T) {
	t.Parallel()
	s := NewScheduler(small(), plain())
	for name, seq := range map[string]Sequence{
		"too long":  {Prompt: 390, Output: 7},
		"no prompt": {Output: 1},
		"no output": {Prompt: 1},
	} {
		if err := s.Add(seq); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	add(t, s, Sequence{Prompt: 389, Output: 7})
	for s.Busy() {
		s.Step()
	}
}

func TestARemovedSequenceLeavesNothing(t *testing.T) {
	t.Parallel()
	s := NewScheduler(small(), plain())
	add(t, s, Sequence{ID: 1, Prompt: 8, Output: 100, Prefix: []uint64{5, 6}})
	add(t, s, Sequence{ID: 2, Prompt: 8, Output: 100})
	s.Step()
	s.Remove(1)
	s.Remove(2)
	if got := s.Usage(); s.Busy() || got.Blocks != 0 {
		t.Errorf("left behind: %+v", got)
	}
}

func add(t *testing.T, s *Scheduler, seq Sequence) {
	t.Helper()
	if err := s.Add(seq); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkSimulate is a thousand requests of a usual size, as a profiler simulates many times over.
func BenchmarkSimulate(b *testing.B) {
	arrivals := make([]Arrival, 1000)
	for i := range arrivals {
		arrivals[i] = Arrival{
			At: time.Duration(i) * 50 * time.Millisecond, Sequence: Sequence{ID: uint64(i), Prompt: 3000, Output: 150},
		}
	}
	for b.Loop() {
		if _, err := Simulate(NewScheduler(DefaultLimits(), DefaultTiming()), arrivals); err != nil {
			b.Fatal(err)
		}
	}
}
