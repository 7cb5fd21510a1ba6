// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"time"
)

// Timing tells how long the parts of one iteration take.
type Timing struct {
	// Prefill is the time to read so many tokens of prompts that no cache holds.
	Prefill func(tokens int) time.Duration
	// Decode is the time for one more token of each of some sequences that hold kvTokens together, context each on average.
	Decode func(kvTokens, context int) time.Duration
	// Overlap has an iteration take as long as the longer of its two parts. The sum, which is the default, makes mixed
	// batches a little slower than they are.
	Overlap bool
	// HandoffBytes is what a token takes in the cache, HandoffRate the bytes per second between prefill and decode workers.
	HandoffBytes, HandoffRate float64
}

// decodeCapacity is the number of tokens at which the cache of the default timing is full.
const decodeCapacity = 16384

// DefaultTiming are the polynomials with which Dynamo's own simulation is shipped.
func DefaultTiming() Timing {
	return Timing{
		Prefill: func(tokens int) time.Duration {
			n := float64(tokens)
			return milliseconds(4.21e-7*n*n + 0.01518*n + 16.5)
		},
		Decode: func(kvTokens, _ int) time.Duration {
			// Beyond a full cache the parabola falls, which no engine does.
			p := min(float64(kvTokens)/decodeCapacity, 1)
			return milliseconds(-25.74*p*p + 54.01*p + 5.74)
		},
		HandoffBytes: 128 << 10,
		HandoffRate:  64e9,
	}
}

// Iteration is the time of one iteration that reads prompt tokens and adds one token to each of some decoding sequences.
func (t Timing) Iteration(prompt, decoding, kvTokens int) time.Duration {
	var prefill, decode time.Duration
	if prompt > 0 {
		prefill = t.Prefill(prompt)
	}
	if decoding > 0 {
		decode = t.Decode(kvTokens, kvTokens/decoding)
	}
	if t.Overlap {
		return max(prefill, decode)
	}
	return prefill + decode
}

// Handoff is the time in which the cache of a prompt moves from a prefill worker to a decode worker.
func (t Timing) Handoff(tokens int) time.Duration {
	if t.HandoffRate <= 0 {
		return 0
	}
	return time.Duration(float64(tokens) * t.HandoffBytes / t.HandoffRate * float64(time.Second))
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
