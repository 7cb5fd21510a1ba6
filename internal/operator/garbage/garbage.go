// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package garbage says how much of it the operator may carry. Most of what an operator holds are objects that it watches, for as
// long as they exist. Go's own rule lets garbage grow in proportion to them: a large installation would pay twice for each of its
// graphs, and a small one would collect all the time. How much garbage is made has nothing to do with how many graphs there are at
// rest, so the room for it is the same for all.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// room is for garbage, in bytes, beside what is in use. Less would cost much time. More would save some: among 2,000 new graphs,
	// collections take a quarter of the operator's time, and with no room at all to spare for memory they would take none.
	room = 20 << 20
	// least and most are the percentages that room may come to: a heap so large that the room is next to nothing in it would be
	// collected all the time, and one so small that it is many times its size has to grow first.
	least, most = 20, 400

	inUse = "/gc/heap/live:bytes"
)

// Bound keeps garbage within its room from now on, unless GOGC says how much there may be. It tells whether it does.
func Bound() bool {
	if os.Getenv("GOGC") != "" {
		return false
	}
	adjust(0)
	return true
}

// adjust sets the percentage for what is in use now, and again after every collection.
func adjust(was int) {
	now := []metrics.Sample{{Name: inUse}}
	metrics.Read(now)
	is := percent(now[0].Value.Uint64())
	if is != was {
		debug.SetGCPercent(is)
	}
	// A collection is noticed by what it collects.
	runtime.AddCleanup(&sentinel{}, adjust, is)
}

// sentinel is what nobody holds. It has a pointer, because Go puts small things without one together, and collects them together.
type sentinel struct{ _ *sentinel }

// percent is the room as a share of what is in use.
func percent(inUse uint64) int {
	if inUse == 0 {
		return most
	}
	return int(min(most, max(least, room*100/inUse)))
}
