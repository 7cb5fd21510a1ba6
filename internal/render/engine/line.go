// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// interpreter matches the name of a Python program, with or without its directory.
	interpreter = regexp.MustCompile(`^(.*/)?python[0-9]*(\.[0-9]+)*$`)
	// shellOption matches an option of a shell, or several in one word.
	shellOption = regexp.MustCompile(`^[-+].`)
	// scriptOption matches a group of shell options that makes the next word a script.
	scriptOption = regexp.MustCompile(`^-[A-Za-z]*c[A-Za-z]*$`)
	// valueOption matches a group of shell options that has the next word as its value, as in -eo pipefail.
	valueOption = regexp.MustCompile(`^[-+][A-Za-z]*[oO]$`)
	// flag matches the name of a flag of a program.
	flag = regexp.MustCompile(`^--?[A-Za-z]`)
	// flagAndMore matches several words in one: no engine takes a flag with a blank in its name.
	flagAndMore = regexp.MustCompile(`^--?[A-Za-z][A-Za-z0-9_-]*\s`)
	// parameter matches what a script uses of the words that follow it.
	parameter = regexp.MustCompile(`\$\{?[0-9@*#]`)
)

// line is the command line of a container: command and args behind each other, as the runtime executes them.
type line struct {
	words []string
	// args is where args begin.
	args int
}

// line is the command line of the node. A shell that is handed a command word by word would run the first word alone,
// and nobody means that: then the words are the command line.
func (n node) line() line {
	l := line{words: slices.Concat(n.main.Command, n.main.Args), args: len(n.main.Command)}
	script := l.script()
	if script < 0 || script+1 == len(l.words) || means(l.words[script]) {
		return l
	}
	if words := l.words[script:]; interpreter.MatchString(words[0]) || (line{words: words}).afterModule(n.framework) > 0 {
		return line{words: words, args: 1}
	}
	return l
}

// put writes a command line back.
func (n node) put(l line) {
	n.main.Command, n.main.Args = slices.Concat(l.words[:l.args]), slices.Concat(l.words[l.args:])
}

// runInShell makes shell text the command line.
func (n node) runInShell(shell, text string) {
	n.main.Command, n.main.Args = []string{shell, "-c"}, []string{text}
}

// isPython tells whether the program itself is Python.
func (l line) isPython() bool { return len(l.words) > 0 && interpreter.MatchString(l.words[0]) }

// isEmpty tells whether the line names nothing to run: at most a shell without a script.
func (l line) isEmpty() bool {
	return len(l.words) == 0 || (isShell(l.words[0]) && !slices.ContainsFunc(l.words[1:], func(word string) bool {
		return !shellOption.MatchString(word)
	}))
}

// isShell tells whether a word names a shell.
func isShell(word string) bool {
	return !strings.Contains(word, "=") && slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh"}, path.Base(word))
}

// withoutExec leaves out a leading exec, which only a shell could run.
func (l line) withoutExec() line {
	if len(l.words) > 1 && l.words[0] == "exec" {
		return line{words: l.words[1:], args: max(l.args-1, 1)}
	}
	return l
}

// script is the index of the word that a shell takes as its script, negative for none.
func (l line) script() int {
	for i, word := range l.words {
		if !isShell(word) {
			continue
		}
		if script := scriptBehind(l.words[i+1:]); script >= 0 {
			return i + 1 + script
		}
	}
	return -1
}

// scriptBehind is the index of the script in the arguments of a shell: the first that is no option, if one of the options
// says so.
func scriptBehind(arguments []string) int {
	found := false
	for i := 0; i < len(arguments); i++ {
		word := arguments[i]
		switch {
		case !shellOption.MatchString(word):
			if found {
				return i
			}
			return -1
		case valueOption.MatchString(word):
			i++
		}
		found = found || scriptOption.MatchString(word)
	}
	return -1
}

// withRest appends to the script at an index the flags that follow it, if the script does not look at them itself: a
// shell ignores them, and the user wanted them to be read.
func (l line) withRest(script int, v variables) line {
	rest := l.words[script+1:]
	if len(rest) == 0 || !flag.MatchString(rest[0]) || parameter.MatchString(l.words[script]) {
		return l
	}
	text := strings.TrimSpace(l.words[script]) + " " + line{words: rest}.text(v, "")
	return line{words: append(slices.Clone(l.words[:script]), text), args: min(l.args, script)}
}

// startsIn is the index of the word that contains the start of an engine as shell text, negative for none. Those of args
// come first: command is where the program stands, args is where users write.
func (l line) startsIn(framework string) int {
	find := func(words []string) int {
		return slices.IndexFunc(words, starts[framework].in)
	}
	if i := find(l.words[l.args:]); i >= 0 {
		return l.args + i
	}
	return find(l.words[:l.args])
}

// afterModule is the index behind the name of an engine's module in words that start it, negative for none.
func (l line) afterModule(framework string) int {
	for i := 2; i < len(l.words); i++ {
		if l.words[i-1] == "-m" && strings.Contains(l.words[i], moduleName(framework)) &&
			slices.ContainsFunc(l.words[:i-1], interpreter.MatchString) {
			return i + 1
		}
	}
	return -1
}

// with inserts words.
func (l line) with(at int, words ...string) line {
	args := l.args
	if at < args {
		args += len(words)
	}
	return line{words: slices.Insert(slices.Clone(l.words), at, words...), args: args}
}

// text writes the line as shell text, each word quoted where it needs it. A word that can only be several is text
// already: the runtime would hand it on in one piece, and no engine could read it.
func (l line) text(v variables, framework string) string {
	script := l.script()
	parts := make([]string, 0, len(l.words))
	for i, word := range l.words {
		severalWords := flagAndMore.MatchString(word) || (framework != "" && launches[framework].MatchString(word))
		if i != script && severalWords {
			parts = append(parts, strings.TrimSpace(word))
			continue
		}
		parts = append(parts, v.quote(word))
	}
	return strings.Join(parts, " ")
}

// fields are all words that stand anywhere in the line, also in scripts, without the quotes around them.
func (l line) fields() []string {
	var fields []string
	for _, word := range l.words {
		for f := range strings.FieldsSeq(word) {
			f = strings.Trim(strings.TrimPrefix(f, "("), "\"'`;&|")
			if !strings.Contains(f, "(") {
				f = strings.Trim(f, ")\"'`;&|") // the end of a subshell, not of a reference
			}
			fields = append(fields, f)
		}
	}
	return fields
}

func moduleName(framework string) string { return "dynamo." + framework }
