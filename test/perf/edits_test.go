// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatWasSentBeforeTheEndCountsHoweverLateItIsServed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end, most       int
		during, inDoubt []int
	}{
		"over after three": {end: 3, most: 9, during: []int{1, 2, 3}, inDoubt: []int{4}},
		"over at once":     {end: 0, most: 9, inDoubt: []int{1}},
		"never over":       {end: 9, most: 2, during: []int{1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent, asked := 0, 0
			during, inDoubt := SentWhile(c.most, func() int { sent++; return sent }, func() bool { asked++; return asked <= c.end })
			if diff := cmp.Diff([][]int{c.during, c.inDoubt}, [][]int{during, inDoubt}); diff != "" {
				t.Errorf("sent during, and in doubt (-want +got):\n%s", diff)
			}
		})
	}
}
