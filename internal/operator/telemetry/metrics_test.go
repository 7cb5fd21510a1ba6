// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
)

func TestPassesAreCountedByHowTheyEndedAndWhatTheyWrote(t *testing.T) {
	t.Parallel()
	registry, clock := prometheus.NewRegistry(), clocktesting.NewFakeClock(time.Unix(0, 0))
	m, err := NewMetrics(registry, clock)
	if err != nil {
		t.Fatal(err)
	}
	var count tally.Counter = m.Wrote
	conflict := fmt.Errorf("write status: %w", apierrors.NewConflict(schema.GroupResource{}, "a", errors.New("stale")))
	for _, pass := range []struct {
		writes int
		result reconcile.Result
		err    error
	}{{writes: 2}, {}, {result: reconcile.Result{RequeueAfter: time.Second}}, {err: conflict}} {
		measured := m.Measured("DynamoGraphDeployment", Traces{}, reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			clock.Step(20 * time.Millisecond)
			for range pass.writes {
				count.Wrote(ctx, "Service", tally.Created)
			}
			return pass.result, pass.err
		}))
		result, err := measured.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "g"}})
		if result != pass.result || !errors.Is(err, pass.err) {
			t.Errorf("the answer of the pass was changed: %v, %v", result, err)
		}
	}
	const want = `
# HELP dynamo_operator_reconcile_errors_total How many passes failed, by the kind of answer that the API server gave: ` +
		`not_found, already_exists, conflict, validation, bad_request, unauthorized, forbidden, timeout, server_timeout, unavailable, rate_limited, internal.
# TYPE dynamo_operator_reconcile_errors_total counter
dynamo_operator_reconcile_errors_total{error_type="conflict",namespace="ns",resource_type="DynamoGraphDeployment"} 1
# HELP dynamo_operator_reconcile_total How many passes there were.
# TYPE dynamo_operator_reconcile_total counter
dynamo_operator_reconcile_total{namespace="ns",resource_type="DynamoGraphDeployment",result="error"} 1
dynamo_operator_reconcile_total{namespace="ns",resource_type="DynamoGraphDeployment",result="requeue"} 1
dynamo_operator_reconcile_total{namespace="ns",resource_type="DynamoGraphDeployment",result="success"} 2
# HELP dynamo_operator_reconcile_without_writes_total How many passes changed nothing. Together with reconcile_total it is the share of passes ` +
		`for which nobody paid but the operator.
# TYPE dynamo_operator_reconcile_without_writes_total counter
dynamo_operator_reconcile_without_writes_total{resource_type="DynamoGraphDeployment"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "dynamo_operator_reconcile_errors_total", "dynamo_operator_reconcile_total",
		"dynamo_operator_reconcile_without_writes_total"); err != nil {
		t.Error(err)
	}
	if got := testutil.ToFloat64(m.writes.WithLabelValues("Service", "created")); got != 2 {
		t.Errorf("%v writes were counted, want 2", got)
	}
}

func TestAdmissionIsCountedByItsVerdict(t *testing.T) {
	t.Parallel()
	m, err := NewMetrics(prometheus.NewRegistry(), clocktesting.NewFakeClock(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	m.Admitted(Admission{Kind: "DynamoModel", Operation: "CREATE", Result: "allowed", Took: time.Millisecond})
	m.Admitted(Admission{Kind: "DynamoModel", Operation: "CREATE", Result: "denied", Reasons: []string{"claim-name", "claim-size"}, Took: time.Millisecond})
	for got, want := range map[float64]string{
		testutil.ToFloat64(m.webhookRequests.WithLabelValues("DynamoModel", "CREATE", "allowed")): "allowed",
		testutil.ToFloat64(m.webhookRequests.WithLabelValues("DynamoModel", "CREATE", "denied")):  "denied",
	} {
		if got != 1 {
			t.Errorf("%v were %s, want 1", got, want)
		}
	}
	if got := testutil.ToFloat64(m.webhookDenials.WithLabelValues("DynamoModel", "CREATE", "claim-size")); got != 1 {
		t.Errorf("%v denials, want 1", got)
	}
}

func TestAPassAndItsRequestsReachTheCollector(t *testing.T) {
	t.Parallel()
	received := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		received <- body
	}))
	defer collector.Close()
	traces, err := NewTraces(t.Context(), TraceOptions{Endpoint: collector.URL, RatePerMillion: perMillion})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	asks := &http.Client{Transport: traces.Requests(http.DefaultTransport)}
	ask := func(ctx context.Context, path string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, api.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := asks.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	ctx, end := traces.pass(t.Context(), "DynamoModel", types.NamespacedName{Namespace: "ns", Name: "llama"})
	ask(ctx, "/of-the-pass")
	end(3, errors.New("it went wrong"))
	ask(t.Context(), "/of-nobody")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := traces.Start(ended); err != nil {
		t.Fatal(err)
	}
	// Names are plain text in the encoding.
	body := string(<-received)
	for _, want := range []string{"reconcile DynamoModel", "/of-the-pass", "llama", "it went wrong", "dynamo-operator"} {
		if !strings.Contains(body, want) {
			t.Errorf("%q did not reach the collector", want)
		}
	}
	if strings.Contains(body, "/of-nobody") {
		t.Error("a request outside of a pass was recorded")
	}
}

func TestACollectorThatIsGoneIsNamedOnceAndOnceMoreWhenItIsBack(t *testing.T) {
	t.Parallel()
	var said []string
	down := true
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down {
			w.WriteHeader(http.StatusBadRequest) // which is not tried again
		}
	}))
	defer collector.Close()
	traces, err := NewTraces(t.Context(), TraceOptions{
		Endpoint: collector.URL, RatePerMillion: perMillion, Log: funcr.New(func(_, args string) { said = append(said, args) }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = traces.provider.Shutdown(t.Context()) }() // otherwise its goroutine stays
	for range 2 {
		for _, down = range []bool{true, true, false, false} {
			_, end := traces.pass(t.Context(), "DynamoModel", types.NamespacedName{Namespace: "ns", Name: "llama"})
			end(0, nil)
			if err := traces.provider.ForceFlush(t.Context()); err != nil {
				t.Errorf("a collector that is gone is somebody's error: %v", err)
			}
		}
	}
	if len(said) != 4 || !strings.Contains(said[0], "Traces are lost") || !strings.Contains(said[1], "reach the collector again") {
		t.Errorf("got %q", said)
	}
	if text := strings.Join(said, ""); strings.Contains(text, collector.URL) {
		t.Errorf("the address is told: %s", text)
	}
}
