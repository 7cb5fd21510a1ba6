// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Blindness says how an operator is kept from seeing one resource.
type Blindness struct {
	Resource string
	// Missed says that what happened meanwhile is never told: after the release, the operator has to list anew. Otherwise it
	// is told all of it, late.
	Missed bool
	// Closed says that nothing is held: a watch ends in the middle of its next news, and the one after it goes on from what was
	// understood last.
	Closed bool
	// Past is a version of the world; the resource is listed as it was then. Empty means the present.
	Past string
	// Streaming lets lists be streamed, which the API server answers from the present. Otherwise it seems too old for that.
	Streaming bool
}

// sight is what an operator may see of one resource.
type sight struct {
	Blindness
	over chan struct{}

	mu    sync.Mutex
	ended bool
	// expired are the streams that have to be told that they ask for too old a version.
	expired int
	// kept counts the questions that were not answered as they were meant and the news that were held, unserved the streams that were
	// refused as by an older API server, and heard what came through after the end: held news, or lists of what is there.
	kept, unserved, heard int
}

// Blind keeps news of a resource from the operator until the returned function is called.
func (w *Wire) Blind(b Blindness) (release func()) {
	s := &sight{Blindness: b, over: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sights[b.Resource] = s
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = true
		close(s.over)
	})
}

func (w *Wire) sightOf(call Call) *sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sights[call.Resource]
}

// see changes a question about a resource that must not be seen as it is.
func (w *Wire) see(call Call, req *http.Request) (*http.Request, *http.Response) {
	s := w.sightOf(call)
	if s == nil || call.Method != http.MethodGet || call.Name != "" {
		return req, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isList := call.Streams || !call.Watch
	switch {
	case s.expired > 0 && !isList:
		s.expired--
		return req, Fault{Code: http.StatusGone, Reason: metav1.StatusReasonExpired}.refusal(req)
	case s.ended || s.Closed:
		s.noteList(isList)
		return req, nil
	case s.Past == "":
		return req, nil
	case call.Streams && !s.Streaming:
		s.unserved++
		return req, Fault{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}.refusal(req)
	case call.Watch || s.Streaming:
		return req, nil
	}
	s.kept++
	return asOf(req, s.Past), nil
}

// noteList counts lists that tell what was missed. Whoever trusts no short watch lists anew as well after one was closed.
func (s *sight) noteList(isList bool) {
	if isList && (s.Missed || s.Closed && s.kept > 0) {
		s.heard++
	}
}

// asOf asks for the world as it was.
func asOf(req *http.Request, version string) *http.Request {
	past := req.Clone(req.Context())
	query := past.URL.Query()
	query.Set("resourceVersion", version)
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	past.URL.RawQuery = query.Encode()
	return past
}

// Deceived is how many questions about a resource were answered from the past and how many news of it were held.
func (w *Wire) Deceived(resource string) int {
	kept, _ := w.sightOf(Call{Resource: resource}).counts()
	return kept
}

// Heard is how many news of a resource came through after they were held, or how often it was listed anew where they were lost.
func (w *Wire) Heard(resource string) int {
	_, heard := w.sightOf(Call{Resource: resource}).counts()
	return heard
}

func (s *sight) counts() (kept, heard int) {
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept, s.heard
}

// follow lets the wire hold what comes through a watch.
func (w *Wire) follow(call Call, answer *http.Response) *http.Response {
	if call.Watch && answer.StatusCode == http.StatusOK {
		ended := make(chan struct{})
		answer.Body = &stream{ReadCloser: answer.Body, wire: w, call: call, ended: ended, end: sync.OnceFunc(func() { close(ended) })}
	}
	return answer
}

// allSaid is in the bookmark after which a stream that begins with all there is goes on with news.
var allSaid = []byte(metav1.InitialEventsAnnotationKey)

// stream is a watch whose news can be held.
type stream struct {
	io.ReadCloser
	wire  *Wire
	call  Call
	ended chan struct{}
	end   func()

	// said is the end of what was read of the beginning, begun tells that it is over.
	said  []byte
	begun bool
	// torn tells that the connection has ended.
	torn bool
}

// Read returns news when they may be seen.
func (s *stream) Read(p []byte) (int, error) {
	if s.torn {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := s.ReadCloser.Read(p)
	if n == 0 || s.isBeginning(p[:n]) {
		return n, err
	}
	sight := s.wire.sightOf(s.call)
	if sight != nil && sight.Closed {
		if s.torn = sight.closes(s.call); s.torn {
			return n / 2, nil
		}
		return n, err
	}
	if sight == nil || !sight.holds() {
		return n, err
	}
	select {
	case <-sight.over:
	case <-s.ended:
		return 0, io.EOF
	}
	if sight.Missed {
		return 0, io.EOF
	}
	sight.hear()
	return n, err
}

// isBeginning tells whether a piece belongs to what there was when the stream began. The mark may be cut in two.
func (s *stream) isBeginning(piece []byte) bool {
	if !s.call.Streams || s.begun {
		return false
	}
	s.said = append(s.said, piece...)
	s.begun = bytes.Contains(s.said, allSaid)
	s.said = s.said[max(0, len(s.said)-len(allSaid)):]
	return true
}

// Close ends the stream, also for somebody who waits for its news.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

// holds tells whether news have to wait, and counts them.
func (s *sight) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.kept++
	if s.Missed {
		s.expired++ // whoever asks for the rest is told to list anew
	}
	return true
}

// closes tells whether a watch ends now: the first one does, and each that began with all there is. What comes through the others
// is what the closed ones did not finish.
func (s *sight) closes(call Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		s.heard++
		return false
	case call.Streams || s.kept == 0:
		s.kept++
		return true
	}
	s.heard++
	return false
}

// hear counts news that come through late.
func (s *sight) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard++
}
