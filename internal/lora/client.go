// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lora speaks with workers about adapters: the calls of their system port, and what the answers mean. Whatever a
// worker answers, or does not, a call ends in bounded time and memory.
package lora

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

// path is where a worker keeps its adapters.
const path = "/v1/loras"

const (
	// maxAnswer is more than a worker with thousands of adapters has to say.
	maxAnswer = 1 << 20
	// maxHeader is more than any worker sends.
	maxHeader = 32 << 10
	// idleTimeout is how long a connection is kept for the next call. Endpoints are many and calls are few.
	idleTimeout = 10 * time.Second
)

// Dial opens a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Client calls workers.
type Client struct {
	http    *http.Client
	timeout time.Duration
}

// NewClient returns a client whose calls take no longer than the timeout. Workers are pods, so nothing goes through a
// proxy; they speak for themselves, so nothing is redirected.
func NewClient(dial Dial, timeout time.Duration) *Client {
	return &Client{timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			DialContext: dial, IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 1, MaxResponseHeaderBytes: maxHeader,
			// An answer that unfolds to a multiple of its size is none that we want.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is a call that failed.
type Error struct {
	// Code is the answer's status, 0 where there was no answer.
	Code int
	// Text says why, in the worker's words where it had any.
	Text string
	// Doubt tells that the worker may have done what it was asked for all the same.
	Doubt bool
}

func (e *Error) Error() string { return e.Text }

// IsDoubtful tells whether the worker may have done what it was asked for although the call failed.
func IsDoubtful(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return err != nil && (!ok || failed.Doubt)
}

// IsUnanswered tells whether a call that failed had no answer, so that the worker may still be at it.
func IsUnanswered(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return err != nil && (!ok || failed.Doubt && failed.Code == 0)
}

// Load has a worker fetch an adapter and serve it under a name.
func (c *Client) Load(ctx context.Context, address, name, uri string) error {
	type source struct {
		URI string `json:"uri"`
	}
	body, err := json.Marshal(struct {
		Name   string `json:"lora_name"`
		Source source `json:"source"`
	}{name, source{uri}})
	if err != nil {
		return fmt.Errorf("encode the request for %q: %w", name, err)
	}
	_, err = c.call(ctx, http.MethodPost, address+path, body)
	return err
}

// Unload has a worker drop an adapter. That it does not have it is as good.
func (c *Client) Unload(ctx context.Context, address, name string) error {
	_, err := c.call(ctx, http.MethodDelete, address+path+"/"+escape(name), nil)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Code == http.StatusNotFound {
		return nil
	}
	return err
}

// Loaded returns the names of the adapters that a worker has. Known is false for workers of old releases, which do not tell.
func (c *Client) Loaded(ctx context.Context, address string) (loaded map[string]bool, known bool, err error) {
	text, err := c.call(ctx, http.MethodGet, address+path, nil)
	if failed, ok := errors.AsType[*Error](err); ok {
		switch failed.Code {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return nil, false, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	var answer struct {
		Adapters map[string]json.RawMessage `json:"loras"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Adapters == nil {
		return nil, false, &Error{Text: "the worker's list of adapters has no member loras"}
	}
	loaded = map[string]bool{}
	for name := range answer.Adapters {
		loaded[name] = true
	}
	return loaded, true, nil
}

// call sends a request and returns what a worker answers that did what it was asked for.
func (c *Client) call(ctx context.Context, method, at string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Text: "the worker's address cannot be used"}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	return text, judge(answer.StatusCode, text)
}

// unanswered says why there is no answer, without the address, which stands beside it.
func (c *Client) unanswered(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Text: fmt.Sprintf("no answer within %s", c.timeout), Doubt: true}
	}
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if dialing, ok := errors.AsType[*net.OpError](err); ok && dialing.Op == "dial" {
		return &Error{Text: "cannot connect: " + tidy(dialing.Err.Error())}
	}
	return &Error{Text: "the call broke off: " + tidy(err.Error()), Doubt: true}
}

// judge tells whether an answer means success. Workers tell of most failures in the body of a 200.
func judge(code int, text []byte) error {
	var said struct {
		Status  string `json:"status"`
		Message string `json:"message"`
	}
	known := json.Unmarshal(text, &said) == nil
	switch {
	case code < 200 || code > 299:
		why := cmp.Or(said.Message, string(bytes.TrimSpace(text)), http.StatusText(code))
		if code >= 300 && code <= 399 {
			why = "a redirect, which is not followed"
		}
		// A worker that answers with a failure of its own may have come halfway.
		return &Error{Code: code, Text: fmt.Sprintf("the worker answered %d: %s", code, tidy(why)), Doubt: code >= http.StatusInternalServerError}
	case len(text) > maxAnswer:
		return &Error{Code: code, Text: fmt.Sprintf("the worker's answer is larger than %d bytes", maxAnswer), Doubt: true}
	case len(bytes.TrimSpace(text)) == 0:
		return nil
	case !known:
		return &Error{Code: code, Text: "the worker's answer is no JSON: " + tidy(string(text)), Doubt: true}
	case said.Status == "error":
		return &Error{Code: code, Text: "the worker refused: " + tidy(said.Message)}
	}
	return nil
}

// maxText keeps what a worker says readable beside fifty others.
const maxText = 200

// tidy makes a line of what a worker says.
func tidy(text string) string {
	// What is cut off is not looked at: it may be a megabyte.
	text = strings.ToValidUTF8(text[:min(len(text), 4*maxText)], "?")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if text == "" {
		return "no reason was given"
	}
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}

// escape makes a name part of a path. Slashes stay what they are, which is how workers read them.
func escape(name string) string {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		switch s {
		case ".", "..":
			segments[i] = strings.ReplaceAll(s, ".", "%2E") // otherwise they would be climbed
		default:
			segments[i] = url.PathEscape(s)
		}
	}
	return strings.Join(segments, "/")
}
