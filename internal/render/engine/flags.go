// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// option is a flag of an engine by which its nodes find each other.
type option struct {
	// names are those the engine knows it under, ours first.
	names []string
	// value is empty for a switch.
	value string
	// fixed is an option for which another constant than ours cannot be right.
	fixed bool
}

// words are the option as arguments of a program.
func (o option) words() []string {
	if o.value == "" {
		return o.names[:1]
	}
	return []string{o.names[0], o.value}
}

// wordsOf are several options as arguments of a program.
func wordsOf(options []option) []string {
	var words []string
	for _, o := range options {
		words = append(words, o.words()...)
	}
	return words
}

// textOf are several options as shell text. Their values are ours and mean what they say to a shell.
func textOf(options []option) string { return strings.Join(wordsOf(options), " ") }

// valuesOf are the values that the words of a command line give to a flag, in the forms "--flag value" and "--flag=value".
// Dashes may be underscores, as the argument parsers of all engines have it.
func valuesOf(fields []string, flagNames ...string) []string {
	var values []string
	for i, f := range fields {
		name, value, attached := strings.Cut(f, "=")
		if !slices.Contains(flagNames, strings.ReplaceAll(name, "_", "-")) {
			continue
		}
		if !attached && i+1 < len(fields) {
			value = fields[i+1]
		}
		values = append(values, strings.Trim(value, `"'`))
	}
	return values
}

// varies tells whether a value is only known where the container runs.
func varies(value string) bool { return strings.Contains(value, "$") }

// missing are the options that a command line does not have yet, so that none stands there twice. A constant that
// contradicts a fixed option is overruled where ours come last, because the last one counts, and refused elsewhere.
func (n node) missing(options []option, oursLast bool) ([]option, field.ErrorList) {
	fields := n.line().fields()
	var missing []option
	var errs field.ErrorList
	for _, o := range options {
		values := valuesOf(fields, o.names...)
		wrong := slices.ContainsFunc(values, func(value string) bool {
			return o.fixed && value != o.value && !varies(value)
		})
		if wrong && !oursLast {
			errs = append(errs, field.Invalid(n.commandPath(), values[0],
				"remove "+o.names[0]+": the nodes of a group get it from the operator, each with its own value"))
		}
		if wrong || len(values) == 0 {
			missing = append(missing, o)
		}
	}
	return missing, errs
}

// add gives options to the engine on the command line of a node. Direct starts of Python get them at the end, scripts where
// insert puts them, and programs that run Python behind its module. A worker's rank takes a shell.
func (n node) add(options func(inShell bool) []option) field.ErrorList {
	l := n.line().withoutExec()
	if text := l.startsIn(n.framework); text >= 0 && !l.isPython() {
		return n.addToText(l, text, options(true))
	}
	at := len(l.words)
	if !l.isPython() {
		at = l.afterModule(n.framework)
	}
	if at < 0 {
		return n.lonely()
	}
	inShell := n.group.Role == Worker
	missing, errs := n.missing(options(inShell), l.isPython())
	switch {
	case len(errs) > 0 || len(missing) == 0:
		return errs
	case inShell:
		n.runInShell("sh", "exec "+n.textWith(l, at, missing))
	default:
		n.put(l.with(at, wordsOf(missing)...))
	}
	return nil
}

// addToText gives options to the engine that the shell text at an index starts.
func (n node) addToText(l line, at int, options []option) field.ErrorList {
	missing, errs := n.missing(options, false)
	if len(errs) > 0 || len(missing) == 0 {
		return errs
	}
	text, ok := insert(l.words[at], n.framework, textOf(missing))
	if !ok {
		return n.lonely()
	}
	l.words[at] = text
	n.put(l)
	return nil
}

// textWith is a command line as shell text with options behind some of its words.
func (n node) textWith(l line, at int, options []option) string {
	v := variablesOf(n.main)
	parts := []string{line{words: l.words[:at]}.text(v, n.framework), textOf(options), line{words: l.words[at:]}.text(v, n.framework)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// size is the number that a command line gives to a flag, and whether it gives one: 1 if it does not, 0 if only the shell
// will know. Other words are not for the engine: "cp -dp" copies.
func (n node) size(flagNames ...string) (size int, given bool) {
	size = 1
	for _, value := range valuesOf(n.line().fields(), flagNames...) {
		if number := n.number(value); number > 0 {
			return number, true
		}
		if varies(value) {
			size, given = 0, true
		}
	}
	return size, given
}

// number is a value as a positive number, 0 if it is none. It may name a variable of the container.
func (n node) number(value string) int {
	if expansion.FindString(value) == value && value != "" {
		value = variablesOf(n.main)[strings.Trim(value, "${}()")].Value
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		return 0
	}
	return max(number, 0)
}
