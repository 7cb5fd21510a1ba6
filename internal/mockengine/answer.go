// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// answerer brings tokens to a client.
type answerer interface {
	token(Token) error
	// begun tells whether the client has got anything that cannot be taken back.
	begun() bool
	// end is called after the last token.
	end()
}

// wholeAnswer collects tokens and sends them at the end.
type wholeAnswer struct {
	*completion
	w    http.ResponseWriter
	text strings.Builder
	made int
}

func (a *wholeAnswer) token(t Token) error {
	if t.Index == 0 {
		a.text.Reset() // of a worker that failed before another took over
		a.made = 0
	}
	a.text.WriteString(tokenText(t.Index))
	a.made++
	return nil
}

func (a *wholeAnswer) begun() bool { return false }

func (a *wholeAnswer) end() {
	writeJSON(a.w, http.StatusOK, a.reply.whole(a.text.String(), count(a.prompt(), a.made)))
}

// streamedAnswer sends tokens as server-sent events.
type streamedAnswer struct {
	*completion
	w         http.ResponseWriter
	made      int
	withUsage bool
}

func (a *streamedAnswer) token(t Token) error {
	if a.made == 0 {
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.w.Header().Set("Cache-Control", "no-cache")
	}
	a.made++
	return a.event(a.reply.piece(tokenText(t.Index), t.Index == 0, t.Last))
}

func (a *streamedAnswer) begun() bool { return a.made > 0 }

func (a *streamedAnswer) end() {
	if a.withUsage && a.event(a.reply.totals(count(a.prompt(), a.made))) != nil {
		return // the client is gone
	}
	_, _ = fmt.Fprint(a.w, "data: [DONE]\n\n")
}

func (a *streamedAnswer) event(body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an event: %w", err)
	}
	if _, err := fmt.Fprintf(a.w, "data: %s\n\n", text); err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	return http.NewResponseController(a.w).Flush()
}

func count(prompt, made int) usage {
	return usage{Prompt: prompt, Completion: made, Total: prompt + made}
}
