// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// lineRoom is more than a worker needs to report a token.
const lineRoom = 256

// complete answers both completion APIs.
func (f *Frontend) complete(w http.ResponseWriter, r *http.Request, chat bool) {
	var request completionRequest
	if err := readJSON(w, r, &request); err != nil {
		f.fail(w, badRequest("%v", err))
		return
	}
	c, refused := f.prepare(request, chat)
	if refused != nil {
		f.metrics.refused(refused.status)
		f.fail(w, refused)
		return
	}
	c.measure = f.metrics.begin(request.Model, f.options.Clock)
	var answer answerer = &wholeAnswer{completion: c, w: w}
	if request.Stream {
		answer = &streamedAnswer{completion: c, w: w, withUsage: request.StreamOptions.IncludeUsage}
	}
	err := f.run(r.Context(), c, answer)
	c.measure.end(c.prompt(), err)
	switch {
	case err == nil:
		answer.end()
	case answer.begun():
		panic(http.ErrAbortHandler) // an answer that just ends would look complete
	default:
		f.fail(w, asAPIError(err))
	}
}

// completion is one request on its way.
type completion struct {
	route   *route
	words   []string
	ask     generateRequest
	reply   reply
	measure *measurement
}

func (c *completion) prompt() int { return len(c.words) }

// prepare turns a request into work, or says what is wrong with it.
func (f *Frontend) prepare(request completionRequest, chat bool) (*completion, *apiError) {
	found, ok := f.table()[request.Model]
	if !ok {
		return nil, modelNotFound(request.Model)
	}
	if request.N != nil && *request.N != 1 {
		return nil, badRequest("n: only one answer is simulated, not %d", *request.N)
	}
	words, err := request.words(chat)
	if err != nil {
		return nil, err
	}
	output, chosen, err := request.output()
	if err != nil {
		return nil, err
	}
	finish, prefix := "stop", "cmpl-"
	if chosen {
		finish = "length"
	}
	if chat {
		prefix = "chatcmpl-"
	}
	return &completion{
		route: found, words: words,
		ask: generateRequest{
			Model: request.Model, Prompt: len(words), Output: output, Prefix: prefixHashes(request.Model, words, found.card.BlockSize),
		},
		reply: reply{
			id: prefix + strconv.FormatUint(f.ids.Add(1), 10), model: request.Model, created: f.options.Clock.Now().Unix(),
			chat: chat, finish: finish,
		},
	}, nil
}

// run has workers do the work: the first that takes it. A decode worker gets the prompt read by a prefill worker first, if
// there is one that can.
func (f *Frontend) run(ctx context.Context, c *completion, answer answerer) error {
	turn := f.turns.Add(1) - 1
	var last error
	prefilled := false
	for _, worker := range rotate(c.route.workers, turn) {
		ask := c.ask
		if worker.role == RoleDecode {
			prefilled = prefilled || f.prefill(ctx, c, turn)
			ask.Prefilled = prefilled
		}
		err := f.generate(ctx, worker, ask, func(token Token) error {
			c.measure.token()
			return answer.token(token)
		})
		if err == nil || answer.begun() || !elsewhere(err) {
			return err
		}
		last = err
	}
	return last
}

// prefill has the prompt read. Without a worker that does, the decode worker reads it itself.
func (f *Frontend) prefill(ctx context.Context, c *completion, turn uint64) bool {
	for _, reader := range rotate(c.route.readers, turn) {
		err := f.generate(ctx, reader, c.ask, func(Token) error { return nil })
		if err == nil {
			return true
		}
		f.options.Log.V(1).Info("Prompt was not read by a prefill worker", "worker", reader.name, "reason", err.Error())
	}
	return false
}

// generate asks one worker.
func (f *Frontend) generate(ctx context.Context, to target, ask generateRequest, emit func(Token) error) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("ask worker %s: %w", to.name, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+to.address+pathGenerate, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask worker %s: %w", to.name, err)
	}
	answer, err := f.options.Client.Do(r)
	if err != nil {
		return fmt.Errorf("ask worker %s: %w", to.name, err)
	}
	defer func() { _ = answer.Body.Close() }()
	limited := io.LimitReader(answer.Body, int64(ask.Output+1)*lineRoom)
	if answer.StatusCode != http.StatusOK {
		var said loraAnswer
		_ = json.NewDecoder(limited).Decode(&said) // the code says enough
		return &workerError{worker: to.name, model: ask.Model, status: answer.StatusCode, message: said.Message}
	}
	lines := json.NewDecoder(limited)
	for {
		var token Token
		if err := lines.Decode(&token); err != nil {
			return fmt.Errorf("read the answer of worker %s: %w", to.name, err)
		}
		if err := emit(token); err != nil {
			return err
		}
		if token.Last {
			return nil
		}
	}
}

// workerError is a worker that said no.
type workerError struct {
	worker, model, message string
	status                 int
}

func (e *workerError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("worker %s answered %d: %s", e.worker, e.status, e.message), ": ")
}

// elsewhere tells whether another worker may do what this one did not: it was unreachable, full, or has lost the model.
func elsewhere(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	said, ok := errors.AsType[*workerError](err)
	if !ok {
		return true
	}
	switch said.status {
	case http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	}
	return false
}

// asAPIError tells a client what a worker's failure means for it.
func asAPIError(err error) *apiError {
	said, ok := errors.AsType[*workerError](err)
	switch {
	case !ok:
		return upstreamError(http.StatusBadGateway, err.Error())
	case said.status == http.StatusNotFound:
		return modelNotFound(said.model)
	case said.status == http.StatusBadRequest, said.status == http.StatusRequestEntityTooLarge:
		return badRequest("%s", said.message)
	case said.status >= http.StatusBadRequest:
		return upstreamError(said.status, said.Error())
	}
	return upstreamError(http.StatusBadGateway, said.Error())
}
