// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"
)

// frontendMetrics are those that planners read.
type frontendMetrics struct {
	registry              *prometheus.Registry
	requests, refusals    *prometheus.CounterVec
	first, between, whole *prometheus.HistogramVec
	input, output         *prometheus.HistogramVec
}

func newFrontendMetrics(namespace string) *frontendMetrics {
	fixed := prometheus.Labels{"dynamo_namespace": namespace}
	seconds := []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	tokens := prometheus.ExponentialBuckets(16, 2, 14)
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dynamo_frontend_" + name, Help: help, Buckets: buckets, ConstLabels: fixed,
		}, []string{"model"})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dynamo_frontend_" + name, Help: help, ConstLabels: fixed}, labels)
	}
	m := &frontendMetrics{
		registry: prometheus.NewRegistry(),
		requests: counter("requests_total", "Requests that reached a worker, by outcome.", "model", "status"),
		refusals: counter("refused_requests_total", "Requests that reached no worker.", "code"),
		first:    histogram("time_to_first_token_seconds", "Time until the first token.", seconds),
		between:  histogram("inter_token_latency_seconds", "Time between two tokens.", seconds),
		whole:    histogram("request_duration_seconds", "Time of whole requests.", seconds),
		input:    histogram("input_sequence_tokens", "Tokens of prompts.", tokens),
		output:   histogram("output_sequence_tokens", "Tokens of answers.", tokens),
	}
	m.registry.MustRegister(m.requests, m.refusals, m.first, m.between, m.whole, m.input, m.output)
	return m
}

func (m *frontendMetrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// refused counts a request by its code only: names of models that do not exist are the client's to invent, and each would
// stay in memory.
func (m *frontendMetrics) refused(code int) { m.refusals.WithLabelValues(strconv.Itoa(code)).Inc() }

// measurement is that of one request.
type measurement struct {
	metrics     *frontendMetrics
	model       string
	clock       clock.PassiveClock
	began, last time.Time
	tokens      int
}

func (m *frontendMetrics) begin(model string, c clock.PassiveClock) *measurement {
	return &measurement{metrics: m, model: model, clock: c, began: c.Now()}
}

// token notes that a token has come.
func (m *measurement) token() {
	now := m.clock.Now()
	if m.tokens == 0 {
		m.metrics.first.WithLabelValues(m.model).Observe(now.Sub(m.began).Seconds())
	} else {
		m.metrics.between.WithLabelValues(m.model).Observe(now.Sub(m.last).Seconds())
	}
	m.last = now
	m.tokens++
}

// end notes how the request went.
func (m *measurement) end(prompt int, err error) {
	status := statusSuccess
	if err != nil {
		status = statusError
	}
	m.metrics.requests.WithLabelValues(m.model, status).Inc()
	m.metrics.whole.WithLabelValues(m.model).Observe(m.clock.Since(m.began).Seconds())
	m.metrics.input.WithLabelValues(m.model).Observe(float64(prompt))
	m.metrics.output.WithLabelValues(m.model).Observe(float64(m.tokens))
}
