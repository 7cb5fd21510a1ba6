// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"net/http"
	"sync"
	"time"
)

// serverTime remembers what time the API server said it was. Leases are dated by the clocks of a cluster, from which the clock of
// whoever looks at them may well differ by more than they last.
type serverTime struct {
	mu  sync.Mutex
	now time.Time
}

// wrap has it listen to all answers that come by a transport.
func (s *serverTime) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		if now, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			s.mu.Lock()
			s.now = now
			s.mu.Unlock()
		}
		return response, nil
	})
}

// last is the time of the latest answer, if one had any.
func (s *serverTime) last() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, !s.now.IsZero()
}

// roundTripper is a function that carries requests.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip carries one.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
