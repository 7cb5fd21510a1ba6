// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestRetriesComeSoonWhileAnErrorIsYoungAndSeldomLater(t *testing.T) {
	t.Parallel()
	r := newRetries()
	item := reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}
	var since time.Duration
	for n := 1; n <= 60; n++ {
		pause := r.When(item)
		if since < 2*time.Minute && pause > youngRetry {
			t.Errorf("the pause after error %d, %s after the first, is %s", n, since, pause)
		}
		since += pause
		// The first is sent at once.
		if perSecond := float64(n+1) / since.Seconds(); since > 7*time.Second && perSecond > 1 {
			t.Errorf("%d requests in %s", n+1, since)
		}
	}
	if pause := r.When(item); pause != lastRetry || r.NumRequeues(item) != 61 {
		t.Errorf("in the end the pause is %s after %d errors", pause, r.NumRequeues(item))
	}
	if other := (reconcile.Request{}); r.When(other) != firstRetry {
		t.Error("another object waits, too")
	}
	r.Forget(item)
	if pause := r.When(item); pause != firstRetry {
		t.Errorf("after a success the pause is %s", pause)
	}
}
