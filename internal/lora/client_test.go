// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package lora_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/lora"
)

// worker answers every request in one way, and remembers the last one.
type worker struct {
	*httptest.Server
	method, uri, body, media string
}

func answering(t *testing.T, code int, text string) *worker {
	t.Helper()
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	})
}

func serving(t *testing.T, handle http.HandlerFunc) *worker {
	t.Helper()
	w := &worker{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.method, w.uri, w.body, w.media = r.Method, r.RequestURI, string(body), r.Header.Get("Content-Type")
		handle(answer, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func client(t *testing.T) *lora.Client {
	t.Helper()
	c := lora.NewClient((&net.Dialer{}).DialContext, time.Minute)
	t.Cleanup(c.Close)
	return c
}

func TestTheCallsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	w := answering(t, http.StatusOK, `{"status":"success"}`)
	c := client(t)
	if err := c.Load(t.Context(), w.URL, "org/sql", "s3://bucket/sql"); err != nil {
		t.Fatal(err)
	}
	got := []string{w.method, w.uri, w.media, w.body}
	want := []string{"POST", "/v1/loras", "application/json", `{"lora_name":"org/sql","source":{"uri":"s3://bucket/sql"}}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"org/sql":       "/v1/loras/org/sql",
		"a b":           "/v1/loras/a%20b",
		"v1.2":          "/v1/loras/v1.2",
		"../../health":  "/v1/loras/%2E%2E/%2E%2E/health",
		"./x":           "/v1/loras/%2E/x",
		"what?#100%":    "/v1/loras/what%3F%23100%25",
		"größe/日本":      "/v1/loras/gr%C3%B6%C3%9Fe/%E6%97%A5%E6%9C%AC",
		"double//slash": "/v1/loras/double//slash",
	} {
		if err := c.Unload(t.Context(), w.URL, name); err != nil {
			t.Fatal(err)
		}
		if w.method != http.MethodDelete || w.uri != want || w.body != "" || w.media != "" {
			t.Errorf("unload %q: %s %s %q %q, want DELETE %s", name, w.method, w.uri, w.body, w.media, want)
		}
	}
}

func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code  int
		text  string
		want  string // empty for success
		doubt bool
	}{
		"success":                {200, `{"status":"success","lora_id":3}`, "", false},
		"no body":                {204, "", "", false},
		"another object":         {201, `{}`, "", false},
		"failure in a 200":       {200, `{"status":"error","message":"no such\nbucket"}`, "the worker refused: no such bucket", false},
		"failure without reason": {200, `{"status":"error"}`, "the worker refused: no reason was given", false},
		"refusal":                {400, `{"message":"bad uri"}`, "the worker answered 400: bad uri", false},
		"failure":                {500, "<html>", "the worker answered 500: <html>", true},
		"redirect":               {302, "", "the worker answered 302: a redirect, which is not followed", false},
		"garbage":                {200, "\x00\x01hello", "the worker's answer is no JSON: hello", true},
		"much":                   {200, strings.Repeat("x", 2<<20), "the worker's answer is larger than 1048576 bytes", true},
		"a long reason":          {200, `{"status":"error","message":"` + strings.Repeat("é", 500) + `"}`, "the worker refused: " + strings.Repeat("é", 100) + "...", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := client(t).Load(t.Context(), answering(t, tc.code, tc.text).URL, "sql", "s3://b/sql")
			if fmt.Sprint(err) != tc.want && (err != nil || tc.want != "") {
				t.Errorf("got %q, want %q", fmt.Sprint(err), tc.want)
			}
			if lora.IsUnanswered(err) {
				t.Errorf("an answer is taken for none: %v", err)
			}
			if lora.IsDoubtful(err) != tc.doubt {
				t.Errorf("doubt is %t", !tc.doubt)
			}
		})
	}
}

func TestAnAdapterThatIsNotThereIsUnloaded(t *testing.T) {
	t.Parallel()
	if err := client(t).Unload(t.Context(), answering(t, http.StatusNotFound, `{"status":"error","message":"no such adapter"}`).URL, "sql"); err != nil {
		t.Error(err)
	}
}

func TestWhatAWorkerHasIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		code  int
		text  string
		want  map[string]bool
		known bool
		err   string
	}{
		"two":             {200, `{"status":"success","loras":{"a/b":1,"c":"x"},"count":2}`, map[string]bool{"a/b": true, "c": true}, true, ""},
		"none":            {200, `{"status":"success","loras":{},"count":0}`, map[string]bool{}, true, ""},
		"an old worker":   {404, "", nil, false, ""},
		"another old one": {405, "", nil, false, ""},
		"an error":        {200, `{"status":"error","message":"busy"}`, nil, false, "the worker refused: busy"},
		"something else":  {200, `{"status":"success"}`, nil, false, "the worker's list of adapters has no member loras"},
		"nothing":         {200, "", nil, false, "the worker's list of adapters has no member loras"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, known, err := client(t).Loaded(t.Context(), answering(t, tc.code, tc.text).URL)
			if (err != nil || tc.err != "") && fmt.Sprint(err) != tc.err {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || known != tc.known {
				t.Errorf("known %t (-want +got):\n%s", known, diff)
			}
		})
	}
}

func TestAWorkerThatDoesNotAnswerIsLeft(t *testing.T) {
	t.Parallel()
	for name, handle := range map[string]http.HandlerFunc{
		"says nothing": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"stops half way": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"never stops": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := lora.NewClient((&net.Dialer{}).DialContext, 100*time.Millisecond)
			t.Cleanup(c.Close)
			if err := c.Load(t.Context(), serving(t, handle).URL, "sql", "s3://b/sql"); !lora.IsDoubtful(err) {
				t.Errorf("got %v, want doubt", err)
			}
		})
	}
}

func TestAWorkerThatCannotBeReachedHasDoneNothing(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
	}
	err := lora.NewClient(refuse, time.Minute).Load(t.Context(), "http://[fd00::7]:9090", "sql", "s3://b/sql")
	if lora.IsDoubtful(err) || lora.IsUnanswered(err) || fmt.Sprint(err) != "cannot connect: connection refused" {
		t.Errorf("got %v", err)
	}
}
