// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

const (
	// defaultOutput is how many tokens are made if the client does not say.
	defaultOutput = 16
	// maxOutput keeps one client from filling the memory of the front end.
	maxOutput = 1 << 17
)

// apiError is an error in the form of OpenAI.
type apiError struct {
	status int

	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: 400, Message: fmt.Sprintf(format, args...), Type: "invalid_request_error"}
}

func modelNotFound(model string) *apiError {
	param, code := "model", "model_not_found"
	return &apiError{
		status: 404, Message: fmt.Sprintf("The model %q does not exist.", model), Type: "invalid_request_error", Param: &param, Code: &code,
	}
}

func upstreamError(status int, message string) *apiError {
	kind := "server_error"
	if status == 429 {
		kind = "rate_limit_error"
	}
	return &apiError{status: status, Message: message, Type: kind}
}

// completionRequest is what both completion APIs have in common, and what tells them apart.
type completionRequest struct {
	Model               string          `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []chatMessage   `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// words are the tokens of a request, as far as a simulation has tokens: one for each word.
func (r completionRequest) words(chat bool) ([]string, *apiError) {
	if !chat {
		return promptWords(r.Prompt)
	}
	if len(r.Messages) == 0 {
		return nil, badRequest("messages: at least one is required")
	}
	var words []string
	for i, m := range r.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return nil, badRequest("messages[%d].content: %v", i, err)
		}
		words = append(append(words, "<"+m.Role+">"), strings.Fields(text)...)
	}
	return words, nil
}

// promptWords reads a prompt: a text, a list of one text, or tokens.
func promptWords(raw json.RawMessage) ([]string, *apiError) {
	var text string
	var texts []string
	var tokens []int64
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, badRequest("prompt: it is required")
	case json.Unmarshal(raw, &text) == nil:
	case json.Unmarshal(raw, &texts) == nil && len(texts) == 1:
		text = texts[0]
	case json.Unmarshal(raw, &tokens) == nil && len(tokens) > 0:
		words := make([]string, len(tokens))
		for i, token := range tokens {
			words[i] = strconv.FormatInt(token, 10)
		}
		return words, nil
	default:
		return nil, badRequest("prompt: give one text or one list of tokens")
	}
	// There is always a token that begins a text.
	return append([]string{"<s>"}, strings.Fields(text)...), nil
}

// contentText reads the content of a message: a text, or parts of which the texts count.
func contentText(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("give a text or a list of parts")
	}
	for _, part := range parts {
		text += part.Text + " "
	}
	return text, nil
}

// output is how many tokens are to be made, and whether the client chose that.
func (r completionRequest) output() (tokens int, chosen bool, err *apiError) {
	for _, asked := range []*int{r.MaxCompletionTokens, r.MaxTokens} {
		if asked == nil {
			continue
		}
		if *asked < 1 || *asked > maxOutput {
			return 0, true, badRequest("max_tokens: %d is not between 1 and %d", *asked, maxOutput)
		}
		return *asked, true, nil
	}
	return defaultOutput, false, nil
}

// prefixHashes are the hashes of the full blocks of a prompt, each over everything before it and the model: the cache of one
// model is of no use to another.
func prefixHashes(model string, words []string, blockSize int) []uint64 {
	if blockSize < 1 {
		return nil
	}
	hashes := make([]uint64, 0, len(words)/blockSize)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(model)) // a hash takes everything
	for i, word := range words {
		_, _ = sum.Write([]byte{0})
		_, _ = sum.Write([]byte(word))
		if (i+1)%blockSize == 0 {
			hashes = append(hashes, sum.Sum64())
		}
	}
	return hashes
}

// tokenText is what a token says.
func tokenText(index int) string {
	if index == 0 {
		return "token-0"
	}
	return " token-" + strconv.Itoa(index)
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// reply builds the answers to one request, whole or in pieces.
type reply struct {
	id, model string
	created   int64
	chat      bool
	// finish is the reason for the end.
	finish string
}

// piece is one event of a stream: the text of a token, and whether it is the first or the last.
func (r reply) piece(text string, first, last bool) map[string]any {
	choice := map[string]any{"index": 0, "finish_reason": nil}
	if last {
		choice["finish_reason"] = r.finish
	}
	if !r.chat {
		choice["text"] = text
		return r.envelope("text_completion", []any{choice})
	}
	delta := map[string]any{"content": text}
	if first {
		delta["role"] = "assistant"
	}
	choice["delta"] = delta
	return r.envelope("chat.completion.chunk", []any{choice})
}

// whole is the answer to a request that is not streamed.
func (r reply) whole(text string, u usage) map[string]any {
	choice := map[string]any{"index": 0, "finish_reason": r.finish}
	kind := "text_completion"
	if r.chat {
		kind = "chat.completion"
		choice["message"] = map[string]any{"role": "assistant", "content": text}
	} else {
		choice["text"] = text
	}
	body := r.envelope(kind, []any{choice})
	body["usage"] = u
	return body
}

// totals is the last event of a stream whose client asked for the usage.
func (r reply) totals(u usage) map[string]any {
	kind := "text_completion"
	if r.chat {
		kind = "chat.completion.chunk"
	}
	body := r.envelope(kind, []any{})
	body["usage"] = u
	return body
}

func (r reply) envelope(kind string, choices []any) map[string]any {
	return map[string]any{"id": r.id, "object": kind, "created": r.created, "model": r.model, "choices": choices}
}
