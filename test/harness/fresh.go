// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"
)

// Fresh gives one test a control plane of its own, in place of the one of its package if that has one: for measurements,
// which must not see what others left behind. Until the test ends everything in this package is about that control plane,
// so such a test runs beside no other.
func Fresh(t testing.TB, opts ...Option) {
	t.Helper()
	fresh, err := start(t.Context(), opts)
	if err != nil {
		t.Fatalf("start a control plane for one test: %v", err)
	}
	before := current.Swap(fresh)
	t.Cleanup(func() {
		current.Store(before)
		if err := fresh.cluster.Stop(); err != nil {
			t.Errorf("stop the control plane of one test: %v", err)
		}
	})
}
