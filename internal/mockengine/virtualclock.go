// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// VirtualClock never lets anybody wait: it jumps to the end of every wait at once. An engine under it answers as fast as the
// machine allows, and says of itself how long it would have taken.
type VirtualClock struct {
	mu  sync.Mutex
	now time.Time
}

// Every clock of Kubernetes fits where a VirtualClock does.
var _ clock.Clock = &VirtualClock{}

// NewVirtualClock returns a clock that stands at a time until somebody waits.
func NewVirtualClock(start time.Time) *VirtualClock { return &VirtualClock{now: start} }

// Now is the time up to which was waited.
func (c *VirtualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Since is the time that has passed since then.
func (c *VirtualClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// Sleep jumps.
func (c *VirtualClock) Sleep(d time.Duration) { c.jump(d) }

// After jumps and is over.
func (c *VirtualClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// NewTimer jumps and returns a timer that has fired.
func (c *VirtualClock) NewTimer(d time.Duration) clock.Timer {
	t := &firedTimer{clock: c, fired: make(chan time.Time, 1)}
	t.fired <- c.jump(d)
	return t
}

// Tick returns a channel that never delivers: time that passes on its own is what this clock does not have.
func (c *VirtualClock) Tick(time.Duration) <-chan time.Time { return nil }

func (c *VirtualClock) jump(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
	return c.now
}

type firedTimer struct {
	clock *VirtualClock
	fired chan time.Time
}

func (t *firedTimer) C() <-chan time.Time { return t.fired }

func (t *firedTimer) Stop() bool { return false }

func (t *firedTimer) Reset(d time.Duration) bool {
	select {
	case <-t.fired:
	default:
	}
	t.fired <- t.clock.jump(d)
	return false
}
