// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// flushTimeout is how long the end of the process may wait for the last traces to be taken.
const flushTimeout = 5 * time.Second

// perMillion turns a sampling rate into a fraction.
const perMillion = 1_000_000

// Traces records passes, and the requests of each. The zero value records nothing and costs nothing.
type Traces struct {
	provider *sdktrace.TracerProvider
}

// TraceOptions say where traces go.
type TraceOptions struct {
	// Endpoint is the OTLP address of a collector, such as http://collector:4318. Empty records nothing.
	Endpoint       string
	RatePerMillion int32
	Version        string
	Log            logr.Logger
}

// NewTraces returns a recorder. A collector that cannot be reached loses traces and holds nothing up.
func NewTraces(ctx context.Context, o TraceOptions) (Traces, error) {
	if o.Endpoint == "" {
		return Traces{}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(o.Endpoint))
	if err != nil {
		return Traces{}, errors.New("traces cannot be set up: tracing.endpoint is no address of a collector") // the cause quotes it
	}
	return Traces{provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&delivery{SpanExporter: exporter, log: o.Log}),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(float64(o.RatePerMillion)/perMillion)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", names.OperatorName), attribute.String("service.version", o.Version))),
	)}, nil
}

// delivery tells of a collector that cannot be reached, and that it can be reached again, once each. By itself the library writes
// a line for every attempt, past the log.
type delivery struct {
	sdktrace.SpanExporter

	log logr.Logger
	// failing is used by one goroutine at a time: that is what the library promises.
	failing bool
}

// ExportSpans sends some. Those that nobody takes are lost, which is no error to anybody.
func (d *delivery) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := d.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !d.failing:
		d.log.Info("Traces are lost: the collector does not take them", "reason", withoutAddress(err))
	case err == nil && d.failing:
		d.log.Info("Traces reach the collector again")
	}
	d.failing = err != nil
	return nil
}

// withoutAddress is what went wrong, without where: addresses may carry passwords.
func withoutAddress(err error) string {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return "it answered with an error"
}

// Start waits for the end of the process and then sends what was not sent yet. It does not belong into a manager, which would
// hand leadership on only after that.
func (t Traces) Start(ctx context.Context) error {
	<-ctx.Done()
	if t.provider == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	// Traces that nobody takes are no reason to end badly.
	_ = t.provider.Shutdown(last)
	return nil
}

func (t Traces) tracer() trace.Tracer {
	if t.provider == nil {
		return noop.Tracer{}
	}
	return t.provider.Tracer(names.OperatorName)
}

// pass begins the trace of one pass. The function that it returns ends it.
func (t Traces) pass(ctx context.Context, kind string, key types.NamespacedName) (context.Context, func(writes int64, err error)) {
	ctx, span := t.tracer().Start(ctx, "reconcile "+kind, trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("k8s.namespace.name", key.Namespace), attribute.String("k8s.object.name", key.Name)))
	return ctx, func(writes int64, err error) {
		span.SetAttributes(attribute.Int64("writes", writes))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Requests returns a transport that records the requests of passes. What is not part of a pass, such as a watch, is not.
func (t Traces) Requests(next http.RoundTripper) http.RoundTripper {
	if t.provider == nil {
		return next
	}
	return transport{next: next, tracer: t.tracer()}
}

type transport struct {
	next   http.RoundTripper
	tracer trace.Tracer
}

// RoundTrip sends a request and records how long it took and how it was answered.
func (r transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !trace.SpanFromContext(req.Context()).IsRecording() {
		return r.next.RoundTrip(req)
	}
	ctx, span := r.tracer.Start(req.Context(), req.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("url.path", req.URL.Path)))
	defer span.End()
	answer, err := r.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", answer.StatusCode))
	return answer, nil
}

// WrappedRoundTripper returns the transport behind this one, which is how the client library finds it.
func (r transport) WrappedRoundTripper() http.RoundTripper { return r.next }
