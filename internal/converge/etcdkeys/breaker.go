// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdkeys

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// rest is how long an etcd that has failed is left alone.
const rest = time.Second

// breaker keeps callers away from an etcd that does not answer. Without it, a thousand components that are deleted at once
// would each wait for their own request to hang, and everything else would wait for them.
type breaker struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	failure error     // how the last request ended, nil for well
	since   time.Time // when it failed
	probing bool      // one caller is finding out whether etcd is back
}

// enter lets a caller through, or returns why not. Whoever was let through calls leave.
func (b *breaker) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == nil {
		return nil
	}
	if b.probing || b.clock.Since(b.since) < rest {
		return b.failure
	}
	b.probing = true
	return nil
}

func (b *breaker) leave(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure, b.since, b.probing = err, b.clock.Now(), false
}
