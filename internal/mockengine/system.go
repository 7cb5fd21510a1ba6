// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Paths of the system port. Those below /mock are ours.
const (
	pathLoras    = "/v1/loras"
	pathFaults   = "/mock/faults"
	pathState    = "/mock/state"
	pathMetadata = "/mock/metadata"
	pathGenerate = "/mock/generate"
)

// Outcomes in the answers of the LoRA API.
const (
	statusSuccess = "success"
	statusError   = "error"
)

// loraAnswer is how a worker answers a load or an unload.
type loraAnswer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Name    string `json:"lora_name,omitempty"`
	ID      int64  `json:"lora_id,omitempty"`
}

// State is what a worker says of itself to a test.
type State struct {
	Model    string           `json:"model"`
	Role     Role             `json:"role"`
	Ready    bool             `json:"ready"`
	Adapters map[string]int64 `json:"adapters"`
	// Published are the adapters that the worker says it has.
	Published []string `json:"published"`
	Counters  Counters `json:"counters"`
	Usage     Usage    `json:"usage"`
}

// Handler is the system port.
func (w *Worker) Handler() http.Handler { return w.handler }

// State returns what the worker says of itself.
func (w *Worker) State() State {
	return State{
		Model: w.options.Model, Role: w.options.Role, Ready: w.Ready(), Adapters: w.adapters.list(),
		Published: append([]string{}, w.adapters.names()...), Counters: w.adapters.count(), Usage: w.engine.Usage(),
	}
}

func (w *Worker) routes() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(workerMetrics{w})
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /live", w.exposed(OnLive, func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, http.StatusOK, map[string]any{"status": "live", "uptime": w.options.Clock.Since(w.created).Seconds()})
	}))
	mux.HandleFunc("GET /health", w.exposed(OnHealth, w.health))
	mux.HandleFunc("GET /metrics", w.exposed(OnMetrics, metrics.ServeHTTP))
	mux.HandleFunc("GET "+pathLoras, w.exposed(OnList, w.list))
	mux.HandleFunc("POST "+pathLoras, w.load)
	mux.HandleFunc("POST "+pathGenerate, w.generate)
	mux.Handle(pathFaults, w.options.Faults)
	mux.HandleFunc("GET "+pathState, func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, http.StatusOK, w.State()) })
	mux.HandleFunc("GET "+pathMetadata, w.metadata)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// Names of adapters may hold what a mux would clean away, such as two slashes in a row.
		if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, pathLoras+"/") {
			w.unload(rw, r)
			return
		}
		mux.ServeHTTP(rw, r)
	})
}

// exposed lets faults strike a request that needs no reading first.
func (w *Worker) exposed(on Operation, next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if !w.struck(rw, r, strikeAt{on: on}) && !w.struck(rw, r, strikeAt{on: on, late: true}) {
			next(rw, r)
		}
	}
}

func (w *Worker) health(rw http.ResponseWriter, _ *http.Request) {
	code, status := http.StatusOK, "ready"
	if !w.Ready() {
		code, status = http.StatusServiceUnavailable, "notready"
	}
	writeJSON(rw, code, map[string]any{
		"status": status, "uptime": w.options.Clock.Since(w.created).Seconds(), "endpoints": map[string]string{EndpointName: status},
	})
}

func (w *Worker) metadata(rw http.ResponseWriter, _ *http.Request) {
	if !w.Ready() {
		writeJSON(rw, http.StatusServiceUnavailable, loraAnswer{Status: statusError, Message: "the worker is not ready"})
		return
	}
	writeJSON(rw, http.StatusOK, w.Metadata())
}

func (w *Worker) list(rw http.ResponseWriter, _ *http.Request) {
	loras := w.adapters.list()
	writeJSON(rw, http.StatusOK, map[string]any{"status": statusSuccess, "loras": loras, "count": len(loras)})
}

// load loads an adapter. Its failures have the code 200, as those of real workers do.
func (w *Worker) load(rw http.ResponseWriter, r *http.Request) {
	var request struct {
		Name   string `json:"lora_name"`
		Source struct {
			URI string `json:"uri"`
		} `json:"source"`
	}
	failed := func(err error) {
		writeJSON(rw, http.StatusOK, loraAnswer{Status: statusError, Message: err.Error(), Name: request.Name})
	}
	if err := readJSON(rw, r, &request); err != nil {
		failed(err)
		return
	}
	if w.struck(rw, r, strikeAt{on: OnLoad, adapter: request.Name}) {
		return
	}
	if !w.Ready() {
		failed(errors.New("the worker is not ready"))
		return
	}
	id, again, err := w.bring(r.Context(), request.Name, request.Source.URI)
	if err != nil {
		failed(err)
		return
	}
	w.options.Log.Info("Adapter was loaded", "adapter", request.Name, "again", again)
	if w.struck(rw, r, strikeAt{on: OnLoad, adapter: request.Name, late: true}) {
		return
	}
	message := "adapter " + request.Name + " was loaded"
	if again {
		message = "adapter " + request.Name + " is loaded already"
	}
	writeJSON(rw, http.StatusOK, loraAnswer{Status: statusSuccess, Message: message, Name: request.Name, ID: id})
}

// bring loads an adapter and publishes it, one at a time: whoever comes second must not be told of one that is about to go again.
func (w *Worker) bring(ctx context.Context, name, uri string) (id int64, again bool, err error) {
	w.bringing.Lock()
	defer w.bringing.Unlock()
	if id, again, err = w.adapters.load(name, uri); err != nil {
		return 0, false, err
	}
	// A client that gives up must not leave an adapter between loaded and published.
	if err := w.announce(context.WithoutCancel(ctx), name); err != nil && !again {
		w.adapters.rollback(name)
		return 0, false, err
	}
	return id, again, nil
}

func (w *Worker) unload(rw http.ResponseWriter, r *http.Request) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), pathLoras+"/"))
	if err != nil {
		writeJSON(rw, http.StatusBadRequest, loraAnswer{Status: statusError, Message: err.Error()})
		return
	}
	if w.struck(rw, r, strikeAt{on: OnUnload, adapter: name}) {
		return
	}
	id, found := w.adapters.unload(name)
	if !found {
		writeJSON(rw, http.StatusOK, loraAnswer{Status: statusError, Message: "adapter " + name + " is not loaded", Name: name})
		return
	}
	if err := w.announce(context.WithoutCancel(r.Context()), name); err != nil {
		w.options.Log.Error(err, "Unload of an adapter could not be published", "adapter", name)
	}
	w.options.Log.Info("Adapter was unloaded", "adapter", name)
	if w.struck(rw, r, strikeAt{on: OnUnload, adapter: name, late: true}) {
		return
	}
	writeJSON(rw, http.StatusOK, loraAnswer{Status: statusSuccess, Message: "adapter " + name + " was unloaded", Name: name, ID: id})
}

// generateRequest is what a front end asks of a worker.
type generateRequest struct {
	Model     string   `json:"model"`
	Prompt    int      `json:"prompt"`
	Output    int      `json:"output"`
	Prefix    []uint64 `json:"prefix,omitempty"`
	Prefilled bool     `json:"prefilled,omitempty"`
}

// generate answers with a line of JSON for each token.
func (w *Worker) generate(rw http.ResponseWriter, r *http.Request) {
	var request generateRequest
	if err := readJSON(rw, r, &request); err != nil {
		writeJSON(rw, http.StatusBadRequest, loraAnswer{Status: statusError, Message: err.Error()})
		return
	}
	if w.struck(rw, r, strikeAt{on: OnGenerate, adapter: request.Model}) {
		return
	}
	if refused := w.refusal(request); refused != 0 {
		writeJSON(rw, refused, loraAnswer{Status: statusError, Message: http.StatusText(refused), Name: request.Model})
		return
	}
	if w.options.Role == RolePrefill {
		request.Output = 1
	}
	lines := json.NewEncoder(rw)
	begun := false
	err := w.engine.Generate(r.Context(), Sequence{
		Prompt: request.Prompt, Output: request.Output, Prefix: request.Prefix, Prefilled: request.Prefilled,
	}, func(token Token) error {
		if !begun {
			begun = true
			rw.Header().Set("Content-Type", "application/x-ndjson")
		}
		if err := lines.Encode(token); err != nil {
			return err
		}
		return http.NewResponseController(rw).Flush()
	})
	if err == nil {
		return
	}
	if begun {
		panic(http.ErrAbortHandler) // an answer that just ends would look complete
	}
	code := http.StatusBadRequest
	if errors.Is(err, ErrFull) || errors.Is(err, ErrStopped) {
		code = http.StatusServiceUnavailable
	}
	writeJSON(rw, code, loraAnswer{Status: statusError, Message: err.Error(), Name: request.Model})
}

// refusal is the code with which a request is turned away before the engine sees it; zero if it is not.
func (w *Worker) refusal(request generateRequest) int {
	switch {
	case !w.Ready():
		return http.StatusServiceUnavailable
	case w.options.ContextLength > 0 && request.Prompt+request.Output > w.options.ContextLength:
		return http.StatusRequestEntityTooLarge
	case !w.adapters.serves(request.Model):
		return http.StatusNotFound
	}
	return 0
}
