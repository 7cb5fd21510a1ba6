// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"regexp"
	"slices"
	"strings"
)

// placeholder stands for flags while it is tried where they can stand. No script contains it.
const placeholder = "\x00"

// start is how the start of an engine looks in shell text.
type start struct {
	// lastWord goes from Python to the last word with the engine's name, at most up to an operator.
	lastWord *regexp.Regexp
	// module goes to the end of the module's name, and moduleWord to the end of the word it stands in, quotes included.
	module, moduleWord *regexp.Regexp
}

// starts are the starts of all engines.
var starts = func() map[string]start {
	m := make(map[string]start, len(known))
	for _, name := range known {
		module := `-m\s+["']?[\w.]*` + regexp.QuoteMeta(moduleName(name)) + `[\w.]*`
		m[name] = start{
			lastWord:   regexp.MustCompile(`python[0-9.]*\s+[^|&;]*` + name + `[^\s|&;]*`),
			module:     regexp.MustCompile(module),
			moduleWord: regexp.MustCompile(module + `[^\s|&;]*`),
		}
	}
	return m
}()

// in tells whether a text contains a start.
func (s start) in(text string) bool {
	return s.lastWord.MatchString(text) || s.module.MatchString(text)
}

// insert puts flags into shell text so that every start of the engine in it gets them. Pods of other operators have them
// behind the last word with the engine's name; that place is kept where it works. Where it does not, because that word
// is between quotes, belongs to another command or is a flag with a value, they come behind the module's name.
func insert(text, framework, flags string) (string, bool) {
	s := starts[framework]
	for _, pattern := range []*regexp.Regexp{s.lastWord, s.module, s.moduleWord} {
		if pattern.MatchString(text) && reach(behind(pattern, text, placeholder), framework) {
			return behind(pattern, text, flags), true
		}
	}
	return "", false
}

// behind puts flags behind everything that matches.
func behind(pattern *regexp.Regexp, text, flags string) string {
	return pattern.ReplaceAllStringFunc(text, func(match string) string { return match + " " + flags })
}

// reach tells whether the placeholder is an argument of every start of the engine in a text. Of text that cannot be read
// it is believed: other operators have always put flags there.
func reach(text, framework string) bool {
	commands, ok := readAll(text)
	if !ok {
		return true
	}
	behindModule := func(words []string) int { return line{words: words}.afterModule(framework) }
	behindFile := func(words []string) int {
		python := slices.IndexFunc(words, interpreter.MatchString)
		file := slices.IndexFunc(words[python+1:], func(word string) bool { return strings.Contains(word, framework) })
		if python < 0 || file < 0 {
			return -1
		}
		return python + 1 + file + 1
	}
	for _, place := range []func([]string) int{behindModule, behindFile} {
		found := false
		for _, c := range commands {
			at := place(c.words)
			if at >= 0 && !hasPlaceholder(c.words[at:]) {
				return false
			}
			found = found || at >= 0
		}
		if found {
			return true
		}
	}
	return false
}

// hasPlaceholder tells whether the placeholder is among a program's arguments, and not between a flag and its value.
func hasPlaceholder(words []string) bool {
	at := slices.Index(words, placeholder)
	if at < 1 || at+1 == len(words) {
		return at >= 0
	}
	before, after := words[at-1], words[at+1]
	return !flag.MatchString(before) || strings.Contains(before, "=") || flag.MatchString(after)
}

// isChain tells whether a text is one command, or such that each waits for the success of the one before, so that another
// can be put in front.
func isChain(text string) bool {
	commands, ok := read(text)
	return ok && !slices.ContainsFunc(commands, func(c command) bool {
		return !slices.Contains([]string{"", "&&", "|"}, c.after)
	})
}
