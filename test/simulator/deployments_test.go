// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// TestNewsThatAreHeldComeInTurnAndEachAsLate has three events come while nothing is handed on yet, and one later.
func TestNewsThatAreHeldComeInTurnAndEachAsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events, begin := make(chan watch.Event), time.Now()
		handed := later(t.Context(), events, 2*time.Second)
		go func() {
			for _, what := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				events <- watch.Event{Type: what}
			}
			<-time.After(time.Second)
			events <- watch.Event{Type: watch.Bookmark}
			close(events)
		}()
		for _, want := range []struct {
			what watch.EventType
			at   time.Duration
		}{{watch.Added, 2 * time.Second}, {watch.Modified, 2 * time.Second}, {watch.Deleted, 2 * time.Second}, {watch.Bookmark, 3 * time.Second}} {
			if got := <-handed; got.Type != want.what || time.Since(begin) != want.at {
				t.Errorf("%s came after %s, want %s after %s", got.Type, time.Since(begin), want.what, want.at)
			}
		}
		if _, open := <-handed; open {
			t.Error("there is more than came")
		}
	})
}

func TestNewsThatAreHeldEndWithTheirReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := make(chan watch.Event, 1)
		ctx, cancel := context.WithCancel(t.Context())
		handed := later(ctx, events, time.Hour)
		events <- watch.Event{Type: watch.Added}
		synctest.Wait()
		cancel()
		if _, open := <-handed; open {
			t.Error("something was handed on before it was due")
		}
	})
}
