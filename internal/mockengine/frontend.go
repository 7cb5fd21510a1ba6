// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// FrontendOptions say what a front end is.
type FrontendOptions struct {
	// Namespace is the Dynamo namespace whose workers are used; empty means all.
	Namespace string
	Discovery Discovery
	// Client talks to workers; see NewClient.
	Client *http.Client
	Clock  clock.Clock
	Log    logr.Logger
	// Grace is how long requests may take to end after the front end was told to; zero means twenty seconds.
	Grace time.Duration
}

// Frontend is the OpenAI API over workers.
type Frontend struct {
	options FrontendOptions
	metrics *frontendMetrics
	handler http.Handler

	// models is nil until workers were looked for.
	models atomic.Pointer[table]
	turns  atomic.Uint64
	ids    atomic.Uint64
}

// NewFrontend returns a front end that knows no worker until it is served.
func NewFrontend(o FrontendOptions) *Frontend {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	f := &Frontend{options: o, metrics: newFrontendMetrics(o.Namespace)}
	f.handler = f.routes()
	return f
}

// Handler is the front end's port.
func (f *Frontend) Handler() http.Handler { return f.handler }

// Serve starts the front end on a listener and returns when the context has ended and everything is stopped.
func (f *Frontend) Serve(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { f.watch(ctx) })
	defer watching.Wait()
	defer cancel()
	return serve(ctx, server{handler: f.handler, listener: listener, grace: f.options.Grace, stopping: func() {}})
}

// watch keeps the table up to date, and begins again when the discovery failed.
func (f *Frontend) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := f.options.Discovery.Watch(ctx, f.learn); err != nil && ctx.Err() == nil {
			f.options.Log.Error(err, "Workers could not be watched")
		}
		select {
		case <-ctx.Done():
		case <-f.options.Clock.After(publishRetry):
		}
	}
}

func (f *Frontend) learn(instances []Instance) {
	next := buildTable(instances, f.options.Namespace)
	var before []string
	if old := f.models.Swap(&next); old != nil {
		before = old.names()
	}
	if now := next.names(); strings.Join(now, ",") != strings.Join(before, ",") {
		f.options.Log.Info("Models changed", "models", now, "workers", len(instances))
	}
}

func (f *Frontend) table() table {
	if t := f.models.Load(); t != nil {
		return *t
	}
	return nil
}

func (f *Frontend) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "live"})
	})
	mux.HandleFunc("GET /health", f.health)
	mux.Handle("GET /metrics", f.metrics.handler())
	mux.HandleFunc("GET /v1/models", f.listModels)
	mux.HandleFunc("GET /v1/models/{name...}", f.getModel)
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { f.complete(w, r, true) })
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) { f.complete(w, r, false) })
	return mux
}

// health says that the front end serves once it has looked for workers, whether or not there were any: a graph whose front
// end waits for its workers would show the wrong component as the cause.
func (f *Frontend) health(w http.ResponseWriter, _ *http.Request) {
	if f.models.Load() == nil {
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"status": "starting"})
		return
	}
	endpoints := map[string]bool{}
	for _, r := range f.table() {
		for _, worker := range slices.Concat(r.workers, r.readers) {
			endpoints[worker.name] = true
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"status": "healthy", "models": f.table().names(), "instances": len(endpoints)})
}

// listedModel is a model in the list of models.
func (f *Frontend) listedModel(card Card) map[string]any {
	m := map[string]any{"id": card.Name, "object": "model", "created": f.options.Clock.Now().Unix(), "owned_by": "nvidia"}
	if card.Base != "" {
		m["parent"] = card.Base
	}
	return m
}

func (f *Frontend) listModels(w http.ResponseWriter, _ *http.Request) {
	t := f.table()
	models := []any{}
	for _, name := range t.names() {
		models = append(models, f.listedModel(t[name].card))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": models})
}

func (f *Frontend) getModel(w http.ResponseWriter, r *http.Request) {
	found, ok := f.table()[r.PathValue("name")]
	if !ok {
		f.fail(w, modelNotFound(r.PathValue("name")))
		return
	}
	writeJSON(w, http.StatusOK, f.listedModel(found.card))
}

func (f *Frontend) fail(w http.ResponseWriter, err *apiError) {
	writeJSON(w, err.status, map[string]any{"error": err})
}
