// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Arrival is a request that comes at a time after the beginning of a simulation.
type Arrival struct {
	At       time.Duration
	Sequence Sequence
}

// Outcome is how a request of a simulation went. Times are since the beginning.
type Outcome struct {
	ID                    uint64
	Arrived, First, Ended time.Duration
	Tokens                int
}

// TimeToFirstToken is how long the client waited for anything at all.
func (o Outcome) TimeToFirstToken() time.Duration { return o.First - o.Arrived }

// InterTokenLatency is the mean time between tokens after the first.
func (o Outcome) InterTokenLatency() time.Duration {
	if o.Tokens < 2 {
		return 0
	}
	return (o.Ended - o.First) / time.Duration(o.Tokens-1)
}

// Simulate runs a scheduler through arrivals until everything is answered, in a time of its own. Outcomes are in the order in
// which requests arrived.
func Simulate(s *Scheduler, arrivals []Arrival) ([]Outcome, error) {
	arrivals = slices.Clone(arrivals)
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	outcomes := make([]Outcome, len(arrivals))
	position := make(map[uint64]int, len(arrivals))
	var now time.Duration
	for next := 0; next < len(arrivals) || s.Busy(); {
		if !s.Busy() {
			now = max(now, arrivals[next].At)
		}
		for ; next < len(arrivals) && arrivals[next].At <= now; next++ {
			a := arrivals[next]
			if err := s.Add(a.Sequence); err != nil {
				return nil, fmt.Errorf("request %d: %w", a.Sequence.ID, err)
			}
			position[a.Sequence.ID] = next
			outcomes[next] = Outcome{ID: a.Sequence.ID, Arrived: a.At}
		}
		took, tokens := s.Step()
		now += took
		for _, token := range tokens {
			o := &outcomes[position[token.ID]]
			if token.Index == 0 {
				o.First = now
			}
			o.Tokens, o.Ended = o.Tokens+1, now
		}
	}
	return outcomes, nil
}
