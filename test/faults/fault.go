// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind is a way in which a request fails.
type Kind string

// Kinds of faults.
const (
	// Crash answers nobody: the request was carried out, and whoever sent it is dead.
	Crash Kind = "crash"
	// LostRequest fails before anything was sent.
	LostRequest Kind = "lost request"
	// LostResponse fails after the server has carried the request out.
	LostResponse Kind = "lost response"
	// TornResponse ends in the middle of the answer.
	TornResponse Kind = "torn response"
	// Refused is answered by an error of the API server's, which does nothing.
	Refused Kind = "refused"
)

// Fault says which requests fail, and how.
type Fault struct {
	Kind Kind
	// At names the one write that fails: what is written, and which of several that are alike, counted from 1 since the fault was
	// armed. Nth is the ordinal of the one request that fails, whatever it is about. Without both, all fail.
	At  string
	Nth int
	// Concerns chooses the requests that are counted; nil means all writes.
	Concerns func(Call) bool
	// Code, Reason and RetryAfter are what a refused request is answered.
	Code       int
	Reason     metav1.StatusReason
	RetryAfter time.Duration
}

func (f Fault) concerns(call Call) bool {
	if f.Concerns == nil {
		return call.IsWrite()
	}
	return f.Concerns(call)
}

var (
	// errCrashed is what a dying operator sees.
	errCrashed = errors.New("the operator crashed here")
	// errLost is what a broken connection looks like.
	errLost = fmt.Errorf("fault on the wire: %w", syscall.ECONNRESET)
)

// fail has one request meet its fault.
func (w *Wire) fail(f Fault, call Call, req *http.Request, next http.RoundTripper) (*http.Response, error) {
	switch f.Kind {
	case LostRequest:
		return nil, dropped(req, errLost)
	case Refused:
		return f.refusal(req), dropped(req, nil)
	case Crash, LostResponse, TornResponse:
	}
	answer, err := w.pass(call, req, next)
	if err != nil {
		return nil, err
	}
	if f.Kind == TornResponse {
		return torn(answer)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if f.Kind == Crash {
		return nil, errors.Join(errCrashed, err, answer.Body.Close())
	}
	return nil, errors.Join(errLost, err, answer.Body.Close())
}

// dropped closes what a transport has to close, whatever becomes of the request.
func dropped(req *http.Request, because error) error {
	if req.Body == nil {
		return because
	}
	return errors.Join(because, req.Body.Close())
}

// refusal is an answer of the API server's.
func (f Fault) refusal(req *http.Request) *http.Response {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(f.Code), Reason: f.Reason, Message: fmt.Sprintf("fault on the wire: %s", f.Reason), //nolint:gosec // an HTTP status code
	}
	body, err := json.Marshal(status)
	if err != nil {
		body = nil // a Status can always be encoded
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if f.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Seconds())))
	}
	return &http.Response{
		Status: strconv.Itoa(f.Code) + " " + http.StatusText(f.Code), StatusCode: f.Code, Header: header, Request: req,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// torn gives half of an answer.
func torn(answer *http.Response) (*http.Response, error) {
	whole, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	answer.ContentLength = -1
	answer.Header.Del("Content-Length")
	answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), broken{}))
	return answer, nil
}

// broken is a connection that ended too early.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
