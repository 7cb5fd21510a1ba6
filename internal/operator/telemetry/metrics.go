// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry is how the operator can be seen from outside: its metrics and its traces.
package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
)

// Metrics are the operator's own. Those of the framework are served beside them.
type Metrics struct {
	clock clock.PassiveClock

	reconcileDuration *prometheus.HistogramVec
	reconcileTotal    *prometheus.CounterVec
	reconcileErrors   *prometheus.CounterVec
	webhookDuration   *prometheus.HistogramVec
	webhookRequests   *prometheus.CounterVec
	webhookDenials    *prometheus.CounterVec
	writes            *prometheus.CounterVec
	quietPasses       *prometheus.CounterVec
	timeToReady       *prometheus.HistogramVec
	workerCalls       *prometheus.CounterVec
	workerDuration    *prometheus.HistogramVec

	mu sync.Mutex
	// namespaces are those that passes were counted for.
	namespaces map[string]bool
}

// NewMetrics returns metrics that count from zero, and registers them.
func NewMetrics(registry prometheus.Registerer, c clock.PassiveClock) (*Metrics, error) {
	m := &Metrics{
		clock: c, namespaces: map[string]bool{},
		reconcileDuration: reconcileDuration.histogram(), reconcileTotal: reconcileTotal.counter(), reconcileErrors: reconcileErrors.counter(),
		webhookDuration: webhookDuration.histogram(), webhookRequests: webhookRequests.counter(), webhookDenials: webhookDenials.counter(),
		writes: writesTotal.counter(), quietPasses: quietPasses.counter(), timeToReady: timeToReady.histogram(),
		workerCalls: workerCalls.counter(), workerDuration: workerDuration.histogram(),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.reconcileDuration, m.reconcileTotal, m.reconcileErrors, m.webhookDuration, m.webhookRequests, m.webhookDenials,
		m.writes, m.quietPasses, m.timeToReady, m.workerCalls, m.workerDuration,
	} {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}

// Wrote counts a write.
func (m *Metrics) Wrote(kind string, reason tally.Reason) {
	m.writes.WithLabelValues(kind, string(reason)).Inc()
}

// BecameReady notes how long an object took to become ready.
func (m *Metrics) BecameReady(kind string, took time.Duration) {
	m.timeToReady.WithLabelValues(kind).Observe(took.Seconds())
}

// CalledWorker counts a call to a worker.
func (m *Metrics) CalledWorker(operation string, err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "failure"
	}
	m.workerCalls.WithLabelValues(operation, result).Inc()
	m.workerDuration.WithLabelValues(operation).Observe(took.Seconds())
}

// Admission is one object that was judged.
type Admission struct {
	Kind, Operation string
	// Result is allowed or denied, and Reasons why it was denied.
	Result  string
	Reasons []string
	Took    time.Duration
}

// Admitted counts an object that was judged on admission.
func (m *Metrics) Admitted(a Admission) {
	m.webhookDuration.WithLabelValues(a.Kind, a.Operation).Observe(a.Took.Seconds())
	m.webhookRequests.WithLabelValues(a.Kind, a.Operation, a.Result).Inc()
	for _, reason := range a.Reasons {
		m.webhookDenials.WithLabelValues(a.Kind, a.Operation, reason).Inc()
	}
}

// Measured returns a reconciler whose passes are counted and traced.
func (m *Metrics) Measured(kind string, traces Traces, next reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		began := m.clock.Now()
		ctx, end := traces.pass(ctx, kind, req.NamespacedName)
		ctx, pass := tally.Begin(ctx)
		result, err := next.Reconcile(ctx, req)
		end(pass.Writes(), err)
		outcome := outcomeOf(result, err)
		m.know(req.Namespace)
		m.reconcileDuration.WithLabelValues(kind, req.Namespace, outcome).Observe(m.clock.Since(began).Seconds())
		m.reconcileTotal.WithLabelValues(kind, req.Namespace, outcome).Inc()
		if err != nil {
			m.reconcileErrors.WithLabelValues(kind, req.Namespace, Category(err)).Inc()
		}
		if pass.Writes() == 0 {
			m.quietPasses.WithLabelValues(kind).Inc()
		}
		return result, err
	})
}

func (m *Metrics) know(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.namespaces[namespace] = true
}

// forgetAllBut drops what was counted for namespaces that are gone. Where they come and go, it would grow for ever.
func (m *Metrics) forgetAllBut(live map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for namespace := range m.namespaces {
		if live[namespace] {
			continue
		}
		delete(m.namespaces, namespace)
		gone := prometheus.Labels{labelNamespace: namespace}
		m.reconcileDuration.DeletePartialMatch(gone)
		m.reconcileTotal.DeletePartialMatch(gone)
		m.reconcileErrors.DeletePartialMatch(gone)
	}
}

func outcomeOf(result reconcile.Result, err error) string {
	switch {
	case err != nil:
		return "error"
	case result.RequeueAfter > 0:
		return "requeue"
	}
	return "success"
}

// category is a kind of answer of the API server.
type category struct {
	name string
	is   func(error) bool
}

// internalError is what is none of the others.
const internalError = "internal"

// answers are the kinds of answers in the order in which they are recognised.
var answers = []category{
	{"not_found", apierrors.IsNotFound},
	{"already_exists", apierrors.IsAlreadyExists},
	{"conflict", apierrors.IsConflict},
	{"validation", apierrors.IsInvalid},
	{"bad_request", apierrors.IsBadRequest},
	{"unauthorized", apierrors.IsUnauthorized},
	{"forbidden", apierrors.IsForbidden},
	{"timeout", func(err error) bool { return apierrors.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) }},
	{"server_timeout", apierrors.IsServerTimeout},
	{"unavailable", apierrors.IsServiceUnavailable},
	{"rate_limited", apierrors.IsTooManyRequests},
}

func categories() []string {
	all := make([]string, 0, len(answers)+1)
	for _, a := range answers {
		all = append(all, a.name)
	}
	return append(all, internalError)
}

// Category is the kind of answer that an error goes back to, also when it was wrapped.
func Category(err error) string {
	for _, a := range answers {
		if a.is(err) {
			return a.name
		}
	}
	return internalError
}
