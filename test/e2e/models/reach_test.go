// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine/kubediscovery"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// frontend starts a front end of the graph and returns its address.
func (w *ward) frontend() string {
	w.Helper()
	discovery, err := kubediscovery.New(w.account(), w.namespace)
	if err != nil {
		w.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(w.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	f := mockengine.NewFrontend(mockengine.FrontendOptions{
		Namespace: w.namespace + "-chat", Discovery: discovery, Client: mockengine.NewClient(mockengine.MapAddresses(w.lookup)),
		Clock: clock.RealClock{}, Log: logr.Discard(), Grace: time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, listener) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("front end: %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// chat asks a front end for an answer of a model, and returns the code and what it said.
func chat(t *testing.T, frontend, model string) (int, string) {
	t.Helper()
	body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`, model)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, frontend+"/v1/chat/completions", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(text)
}

// soon is how long users wait for an adapter whose worker has it at once.
const soon = 2 * time.Second

func TestAnAdapterCanBeReachedSoonAfterItsModelIsMade(t *testing.T) {
	t.Parallel()
	w := &ward{T: t, namespace: harness.Namespace(t), engines: map[string]*engine{}}
	// Prompts are read by one kind of worker and answered by another. Both need the adapter.
	w.open(builders.Graph(w.namespace, "chat").
		Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Prefill", v1alpha1.ComponentTypePrefill, builders.Args("python3 -m dynamo.vllm --is-prefill-worker"), builders.Replicas(2), serving).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.vllm"), builders.Replicas(2), serving), 4)
	frontend := w.frontend()
	harness.Eventually(t, patience, "the base model answers", func() (bool, string) {
		code, text := chat(t, frontend, base)
		return code == http.StatusOK, text
	})
	if code, text := chat(t, frontend, "acme/sql"); code != http.StatusNotFound {
		t.Fatalf("before there is a model: %d %s", code, text)
	}
	made := time.Now()
	w.create(w.adapter("sql", "s3://bucket/sql"))
	harness.Eventually(t, soon, "the adapter answers", func() (bool, string) {
		code, text := chat(t, frontend, "acme/sql")
		return code == http.StatusOK, text
	})
	t.Logf("the adapter answered %s after its model was made", time.Since(made).Round(time.Millisecond))
	w.awaitReady("sql")
	for _, e := range w.all() {
		if len(e.Loaded()) != 1 {
			t.Errorf("%s has %v", e.pod, e.Loaded())
		}
	}
	deleted := time.Now()
	w.remove("sql")
	harness.Eventually(t, soon, "the adapter is gone", func() (bool, string) {
		code, text := chat(t, frontend, "acme/sql")
		return code == http.StatusNotFound, text
	})
	t.Logf("the adapter was gone %s after its model was deleted", time.Since(deleted).Round(time.Millisecond))
	w.awaitGone("sql", patience)
}

func TestManyAdaptersConvergeOnManyEndpointsThatFailAtRandom(t *testing.T) {
	t.Parallel()
	const endpoints, adapters = 50, 20
	w := newWard(t, endpoints)
	for i, e := range w.all() {
		e.Faults().Seed(uint64(i))
		e.Faults().Set(
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultError, Probability: .03, Message: "out of luck"},
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultStatus, Status: http.StatusInternalServerError, Probability: .03},
			mockengine.Fault{On: mockengine.OnLoad, Kind: mockengine.FaultReset, Probability: .04, Late: true},
			mockengine.Fault{On: mockengine.OnList, Kind: mockengine.FaultReset, Probability: .1},
		)
	}
	began := time.Now()
	for i := range adapters {
		w.create(w.adapter(fmt.Sprintf("a%02d", i), "s3://bucket/any"))
	}
	for i := range adapters {
		name := fmt.Sprintf("a%02d", i)
		w.await(name, "ready everywhere", func(m *v1alpha1.DynamoModel) bool { return m.Status.ReadyEndpoints == endpoints })
	}
	t.Logf("%d adapters were on %d endpoints after %s", adapters, endpoints, time.Since(began).Round(time.Millisecond))
	struck, twice := 0, 0
	for _, e := range w.all() {
		for name, n := range e.Counters().Loads {
			if n != 1 {
				twice++
				t.Errorf("%s loaded %s %d times", e.pod, name, n)
			}
		}
		if len(e.Loaded()) != adapters {
			t.Errorf("%s has %d adapters", e.pod, len(e.Loaded()))
		}
		for _, f := range e.Faults().List() {
			struck += f.Struck
		}
	}
	t.Logf("%d faults struck; %d adapters were loaded twice on one pod", struck, twice)
	if struck < endpoints {
		t.Errorf("only %d faults struck, so that nothing is proved", struck)
	}
}
