// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry is the pause after the first error; it doubles up to youngRetry. What passes by itself does so soon, and then
	// nobody waits for longer than that.
	firstRetry = 100 * time.Millisecond
	youngRetry = 4 * time.Second
	// patientRetries is how many pauses there are, some two minutes of them, before they double again up to lastRetry: what has
	// been wrong for that long waits for somebody, who waits a minute at most afterwards.
	patientRetries = 36
	lastRetry      = time.Minute
)

// retries tells how long to wait after an error. It counts the errors in a row of each object.
type retries struct {
	mu     sync.Mutex
	failed map[reconcile.Request]int
}

var _ workqueue.TypedRateLimiter[reconcile.Request] = &retries{}

func newRetries() *retries { return &retries{failed: map[reconcile.Request]int{}} }

// When counts one more error and returns the pause after it.
func (r *retries) When(item reconcile.Request) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.failed[item]
	r.failed[item]++
	if n < patientRetries {
		return doubled(firstRetry, n, youngRetry)
	}
	return doubled(youngRetry, n-patientRetries+1, lastRetry)
}

// doubled doubles a pause n times, up to a limit.
func doubled(pause time.Duration, n int, limit time.Duration) time.Duration {
	for ; n > 0 && pause < limit; n-- {
		pause *= 2
	}
	return min(pause, limit)
}

// Forget ends a row of errors.
func (r *retries) Forget(item reconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, item)
}

// NumRequeues is how many errors there were in a row.
func (r *retries) NumRequeues(item reconcile.Request) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed[item]
}
