// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"
)

// command is one simple command of a shell text.
type command struct {
	// after is the operator before it, empty for the first.
	after string
	// words are what the shell would hand on, with expansions left as they stand and redirections left out.
	words []string
}

// read splits shell text into its commands. It knows quotes, expansions, comments and operators, which is what it takes to
// tell whose argument a word is. It gives up on here documents and on quotes that do not end.
func read(text string) ([]command, bool) {
	r := reader{rest: text}
	for r.rest != "" && !r.lost {
		r.step()
	}
	r.endCommand("")
	return r.commands, !r.lost
}

// readAll is read that also looks into the scripts of shells that the text starts.
func readAll(text string) ([]command, bool) {
	commands, ok := read(text)
	for _, c := range slices.Clone(commands) {
		script := (line{words: c.words}).script()
		if script < 0 {
			continue
		}
		inner, readable := readAll(c.words[script])
		commands, ok = append(commands, inner...), ok && readable
	}
	return commands, ok
}

// reader is in the middle of a shell text.
type reader struct {
	rest     string
	word     strings.Builder
	inWord   bool
	target   bool // the word is the target of a redirection
	current  command
	commands []command
	lost     bool
}

func (r *reader) step() {
	switch c := r.rest[0]; {
	case c == ' ' || c == '\t':
		r.endWord()
		r.take(1)
	case c == '#' && !r.inWord:
		r.take(len(r.rest) - len(fromNext(r.rest, '\n')))
	case c == '\'':
		r.singleQuotes()
	case c == '"':
		r.doubleQuotes()
	case c == '\\':
		r.escape()
	case expands(r.rest):
		r.expand()
	case c == '<' || c == '>' || strings.HasPrefix(r.rest, "&>"):
		r.redirect()
	case strings.IndexByte("\n;&|()", c) >= 0:
		r.operator()
	default:
		r.keep(r.take(1))
	}
}

// take goes on by some bytes and returns them.
func (r *reader) take(n int) string {
	n = min(n, len(r.rest))
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// keep makes a text part of the word.
func (r *reader) keep(text string) {
	r.inWord = true
	r.word.WriteString(text)
}

func (r *reader) endWord() {
	if r.inWord && !r.target {
		r.current.words = append(r.current.words, r.word.String())
	}
	if r.inWord {
		r.target = false
	}
	r.inWord = false
	r.word.Reset()
}

func (r *reader) endCommand(operator string) {
	r.endWord()
	if len(r.current.words) > 0 {
		r.commands = append(r.commands, r.current)
		r.current = command{after: operator}
		return
	}
	if operator != "\n" && len(r.commands) > 0 { // empty lines separate nothing
		r.current.after = operator
	}
}

func (r *reader) operator() {
	n := 1
	for _, long := range []string{"&&", "||", ";;", "|&"} {
		if strings.HasPrefix(r.rest, long) {
			n = len(long)
		}
	}
	r.endCommand(r.take(n))
}

func (r *reader) redirect() {
	if strings.Trim(r.word.String(), "0123456789") == "" {
		r.inWord = false // the number of a file, not a word
	}
	r.endWord()
	operator := r.take(len(r.rest) - len(strings.TrimLeft(r.rest, "<>&|")))
	r.target = true
	// A here document is not shell text, and a process substitution is more than a target.
	r.lost = operator == "<<" || strings.HasPrefix(r.rest, "(")
}

func (r *reader) escape() {
	if taken := r.take(len(`\x`)); taken != "\\\n" {
		r.keep(strings.TrimPrefix(taken, `\`))
	}
}

func (r *reader) singleQuotes() {
	r.take(1)
	after := fromNext(r.rest, '\'')
	r.keep(r.take(len(r.rest) - len(after)))
	r.lost = after == ""
	r.take(1)
}

func (r *reader) doubleQuotes() {
	r.take(1)
	r.keep("")
	for r.rest != "" && r.rest[0] != '"' && !r.lost {
		switch {
		case len(r.rest) > 1 && r.rest[0] == '\\' && strings.IndexByte("\"\\$`\n", r.rest[1]) >= 0:
			r.escape()
		case expands(r.rest):
			r.expand()
		default:
			r.keep(r.take(1))
		}
	}
	r.lost = r.lost || r.rest == ""
	r.take(1)
}

// expand keeps an expansion as it stands, up to where it ends.
func (r *reader) expand() {
	if r.rest[0] == '`' {
		r.keep(r.take(1))
		after := fromNext(r.rest, '`')
		r.keep(r.take(len(r.rest) - len(after)))
		r.lost = after == ""
		r.keep(r.take(1))
		return
	}
	r.keep(r.take(1))
	depth := 0
	for r.rest != "" {
		switch r.rest[0] {
		case '(', '{':
			depth++
		case ')', '}':
			depth--
		}
		r.keep(r.take(1))
		if depth == 0 {
			return
		}
	}
	r.lost = true
}

// expands tells whether a text starts with an expansion that may contain blanks.
func expands(text string) bool {
	return text[0] == '`' || strings.HasPrefix(text, "$(") || strings.HasPrefix(text, "${")
}

// fromNext is the rest of a text from the next such byte on, empty if there is none.
func fromNext(text string, b byte) string {
	if i := strings.IndexByte(text, b); i >= 0 {
		return text[i:]
	}
	return ""
}
