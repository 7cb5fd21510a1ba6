// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// restTimeout bounds the wait for the end of all work, on a machine with other work.
const restTimeout = 2 * time.Minute

// rest is how every run ends: nothing moves, nobody asks for anything, nothing lacks its owner and nothing is still going. It
// returns what is there.
func (b *bed) rest(t *testing.T, ns string, wires ...*Wire) Snapshot {
	t.Helper()
	return b.restFor(t, ns, stillFor, wires...)
}

// lastRest is how a run ends in which something was interrupted: an operator that means to try again may make a pause, and a full run
// has the time to see what comes after it.
func (b *bed) lastRest(t *testing.T, ns string, wires ...*Wire) Snapshot {
	t.Helper()
	if *full {
		return b.restFor(t, ns, longestPause+stillFor, wires...)
	}
	return b.rest(t, ns, wires...)
}

func (b *bed) restFor(t *testing.T, ns string, window time.Duration, wires ...*Wire) Snapshot {
	t.Helper()
	var world Snapshot
	var looked time.Time
	var why string
	harness.Eventually(t, restTimeout, "the world comes to rest", func() (bool, string) {
		if still := time.Since(b.diary.Moved(ns)); still < window {
			return false, fmt.Sprintf("something moved %s ago", still)
		}
		for _, wire := range wires {
			if quiet := wire.QuietFor(); quiet < window && !wire.HasCrashed() {
				return false, fmt.Sprintf("the operator asked for something %s ago: %v", quiet, wire.Writes())
			}
		}
		known, _, moved := b.diary.Of(ns)
		if moved.Equal(looked) {
			return false, why // it was seen as it is
		}
		resources := map[string]bool{}
		for key := range known {
			resource, _ := split(key)
			resources[resource] = true
		}
		now, versions, left, err := b.world.Inspect(t.Context(), ns, resources)
		if err != nil {
			return false, err.Error()
		}
		world = now
		if diff := cmp.Diff(known, versions); diff != "" {
			return false, diff
		}
		looked, why = moved, fmt.Sprintf("left behind: %v", left)
		return len(left) == 0, why
	})
	return world
}
