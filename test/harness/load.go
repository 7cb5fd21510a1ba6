// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// loadWorkers send at the same time. They wait for their answers, so that a slow machine is not buried in requests.
	loadWorkers = 8
	// loadTimeout bounds one request.
	loadTimeout = 30 * time.Second
	// loadShare is the part of the asked rate, in percent, below which a load proves too little.
	loadShare = 80
	// shownFailures are quoted of all that were lost.
	shownFailures = 5
)

// Load is a stream of requests, each of which has to be answered as it should.
type Load struct {
	t      testing.TB
	cancel context.CancelFunc
	asked  int
	begin  time.Time
	done   sync.WaitGroup

	mu      sync.Mutex
	sent    int
	failed  []string
	stopped bool
	strict  bool
	// said is what was counted when it was stopped.
	said string
}

// Strict has the load fail its test where the machine is too slow for the rate. Others only say how much they sent.
func (l *Load) Strict() *Load {
	l.strict = true
	return l
}

// StartLoad has something sent so many times per second until it is stopped. An error means that a request was lost.
func StartLoad(t testing.TB, perSecond int, send func(context.Context) error) *Load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{t: t, cancel: cancel, asked: perSecond, begin: time.Now()}
	for range loadWorkers {
		l.done.Go(func() {
			ticker := time.NewTicker(loadWorkers * time.Second / time.Duration(perSecond))
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					l.note(send)
				}
			}
		})
	}
	t.Cleanup(func() { l.Stop("the end of the test") })
	l.More(1)
	return l
}

// note sends once. What is under way when the load is stopped is answered first.
func (l *Load) note(send func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	err := send(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if err != nil {
		l.failed = append(l.failed, time.Now().Format("05.000")+" "+err.Error())
	}
}

// More waits for so many more answers.
func (l *Load) More(answers int) {
	l.t.Helper()
	before := l.count()
	Eventually(l.t, readyTimeout, "more answers", func() (bool, string) {
		now := l.count()
		return now >= before+answers, fmt.Sprintf("%d before, %d now", before, now)
	})
}

func (l *Load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// Stop ends the load and fails the test if anything was lost, or, if it is strict, if there was less of it than was asked for. It returns
// what was counted.
func (l *Load) Stop(what string) string {
	l.t.Helper()
	l.cancel()
	l.done.Wait()
	if l.stopped {
		return l.said
	}
	l.stopped = true
	rate := rateOf(l.sent, time.Since(l.begin))
	l.said = fmt.Sprintf("%d requests, %.1f per second of %d asked for, %d lost", l.sent, rate, l.asked, len(l.failed))
	l.t.Logf("%s: %s", what, l.said)
	if l.strict && tooSlow(rate, l.asked) {
		l.t.Errorf("%s: %.1f requests per second were sent, less than %d %% of %d: the machine is too slow to prove anything", what, rate, loadShare, l.asked)
	}
	if len(l.failed) > 0 {
		l.t.Errorf("%s: %d of %d requests were lost, the first: %s", what, len(l.failed), l.sent, strings.Join(l.failed[:min(shownFailures, len(l.failed))], "\n"))
	}
	return l.said
}

// rateOf is how many were sent per second.
func rateOf(sent int, within time.Duration) float64 {
	return float64(sent) / max(within, time.Millisecond).Seconds()
}

// tooSlow tells whether a rate proves too little.
func tooSlow(rate float64, asked int) bool { return rate*100 < float64(asked*loadShare) }
