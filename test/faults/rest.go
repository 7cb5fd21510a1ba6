// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// stillFor is how long a world must not move to count as at rest. Progress of status is held back for one second.
const stillFor = 1500 * time.Millisecond

// pollEvery is how often those look who wait for something that cannot tell them.
const pollEvery = 50 * time.Millisecond

// AtRest waits until nothing in the namespace moves any more and returns what is there.
func AtRest(t testing.TB, world *World, ns string) Snapshot {
	t.Helper()
	var last Versions
	var snapshot Snapshot
	since := time.Now()
	harness.Eventually(t, time.Minute, "the world comes to rest", func() (bool, string) {
		now, versions, err := world.Read(t.Context(), ns)
		if err != nil {
			return false, err.Error()
		}
		if moved := cmp.Diff(last, versions); moved != "" {
			last, snapshot, since = versions, now, time.Now()
			return false, moved
		}
		return time.Since(since) > stillFor, "waiting"
	})
	return snapshot
}
