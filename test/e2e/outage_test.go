// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// blindfold keeps an operator from seeing one kind: open watches are cut, and new ones are told that they ask for too
// old a version, which is what a client hears after a compaction.
type blindfold struct {
	path string

	mu      sync.Mutex
	on      bool
	refused int
	open    []io.Closer
}

func (b *blindfold) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, b.path) {
			return next.RoundTrip(req)
		}
		if b.refuses() {
			const expired = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
			return &http.Response{
				StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(expired)), Request: req,
			}, nil
		}
		answer, err := next.RoundTrip(req)
		if err == nil {
			b.mu.Lock()
			b.open = append(b.open, answer.Body)
			b.mu.Unlock()
		}
		return answer, err
	})
}

func (b *blindfold) refuses() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.on {
		b.refused++
	}
	return b.on
}

// put cuts the sight, take gives it back.
func (b *blindfold) put(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	b.on = true
	for _, body := range b.open {
		if err := body.Close(); err != nil {
			t.Logf("cut a watch: %v", err)
		}
	}
	b.mu.Unlock()
	harness.Eventually(t, patience, "the operator notices that it sees nothing", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.refused > 0, "no request was refused yet"
	})
}

func (b *blindfold) take() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = false
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestNewsThatACutWatchMissedAreCaughtUpWith(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	sight := &blindfold{path: "/deployments"}
	harness.StartOperator(t, ns, harness.WithTransport(sight.wrap))
	sight.put(t)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.SimulateDeployments(t, ns)
	for _, name := range []string{"chat-decode", "chat-frontend"} {
		harness.Eventually(t, patience, name+" is ready", func() (bool, string) {
			var d appsv1.Deployment
			err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &d)
			return err == nil && d.Status.AvailableReplicas == 1, "not yet"
		})
	}
	sight.take()
	harness.AwaitReady(t, ns, "chat")
}

func TestAnAPIThatTheClusterLacksIsNamed(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.StartOperator(t, ns, harness.WithFlags("--istio-virtual-service-gateway=mesh/gateway"))
	create(t, builders.TwoComponents(ns, "chat").Obj())
	awaitMessage(t, ns, "chat", "VirtualService")
}
