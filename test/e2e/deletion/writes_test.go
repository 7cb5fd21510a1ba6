// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// writes records what an operator changes, as it passes.
type writes struct {
	mu  sync.Mutex
	all []write
}

// write is a request that changed something. What is an object as "resource/name", with the subresource if there is one.
type write struct {
	path    string
	created bool
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(req)
		if err == nil && req.Method != http.MethodGet && answer.StatusCode < http.StatusBadRequest {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, write{path: req.Method + " " + req.URL.Path, created: answer.StatusCode == http.StatusCreated})
		}
		return answer, err
	})
}

// mark is how many writes there were so far.
func (w *writes) mark() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.all)
}

// since returns what was written in a namespace after a mark, such as "create deployments/chat-decode". Events are told, not
// written.
func (w *writes) since(mark int, namespace string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for _, each := range w.all[mark:] {
		before, object, inside := strings.Cut(each.path, "/namespaces/"+namespace+"/")
		if !inside || strings.HasPrefix(object, "events") {
			continue
		}
		verb, _, _ := strings.Cut(strings.ToLower(before), " ")
		if each.created {
			verb = "create"
		}
		found = append(found, fmt.Sprintf("%s %s", verb, object))
	}
	return found
}

// creations are the objects that were made in a namespace after a mark, sorted. A name that is left to the server is its
// resource alone.
func (w *writes) creations(mark int, namespace string) []string {
	var found []string
	for _, each := range w.since(mark, namespace) {
		if object, made := strings.CutPrefix(each, "create "); made {
			found = append(found, object)
		}
	}
	slices.Sort(found)
	return found
}
