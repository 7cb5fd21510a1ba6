// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestTheRoomIsTheSameForSmallAndLargeHeapsWithinBounds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		inUse uint64
		want  int
	}{
		{"nothing was collected yet", 0, most},
		{"next to nothing", 1 << 20, most},
		{"an operator with a few graphs", 10 << 20, 200},
		{"one with hundreds", 40 << 20, 50},
		{"one with thousands", 800 << 20, least},
	} {
		if got := percent(tc.inUse); got != tc.want {
			t.Errorf("%s: %d %%, want %d", tc.name, got, tc.want)
		}
	}
}

// held is in use until the test is over.
var held []byte

// It changes how this process collects, so nothing runs beside it.
func TestThePercentageFollowsWhatIsInUse(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer func() { debug.SetGCPercent(before); held = nil }()
	if !Bound() {
		t.Fatal("nobody says otherwise, and it is not bound")
	}
	if got := current(); got < least || got > most {
		t.Fatalf("at the start %d %%", got)
	}
	held = make([]byte, 2*room)
	const want = 100 / 2
	deadline := time.Now().Add(10 * time.Second)
	for got := 0; got > want || got < want-10; got = current() {
		if time.Now().After(deadline) {
			t.Fatalf("with twice the room in use it is %d %%, want about %d", got, want)
		}
		runtime.GC() // the percentage is set soon after a collection
	}
}

// current is the percentage that holds now; it can only be asked for by setting it.
func current() int {
	is := debug.SetGCPercent(most)
	debug.SetGCPercent(is)
	return is
}

func TestWhoSaysHowToCollectIsObeyed(t *testing.T) {
	t.Setenv("GOGC", "77")
	if Bound() {
		t.Error("GOGC is overruled")
	}
}
