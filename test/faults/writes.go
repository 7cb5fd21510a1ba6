// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults interrupts the operator at every one of its writes and demands that a fresh one ends in the same
// place. Scenarios are rows of a table; how they are interrupted is not their business.
package faults

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// errCrashed is what the dying operator sees. The request itself was answered: it is the answer that got lost.
var errCrashed = errors.New("the operator crashed here")

// Writes numbers the operator's writes as they pass and can crash it right after one of them.
type Writes struct {
	crashAfter int // 0 for never

	mu   sync.Mutex
	list []string
}

// NewWrites returns a recorder that crashes the operator after the given write, counted from 1.
func NewWrites(crashAfter int) *Writes {
	return &Writes{crashAfter: crashAfter}
}

// HasCrashed tells whether the write after which the operator dies was made.
func (w *Writes) HasCrashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crashAfter > 0 && len(w.list) >= w.crashAfter
}

// List returns the writes so far.
func (w *Writes) List() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.list...)
}

// Wrap puts the recorder in front of a transport.
func (w *Writes) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if !isWrite(req) {
			return next.RoundTrip(req)
		}
		// One write at a time, so that "after the n-th" has one meaning, and no write overtakes the crash.
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.crashAfter > 0 && len(w.list) >= w.crashAfter {
			return nil, errCrashed
		}
		answer, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		w.list = append(w.list, fmt.Sprintf("%s %s", req.Method, req.URL.Path))
		if len(w.list) != w.crashAfter {
			return answer, nil
		}
		return nil, errors.Join(errCrashed, answer.Body.Close())
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// isWrite tells whether a request changes something that outlives the operator. Events tell, they do not change.
func isWrite(req *http.Request) bool {
	switch req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.Contains(req.URL.Path, "/events") && !strings.Contains(req.URL.Path, "/leases")
	}
	return false
}
