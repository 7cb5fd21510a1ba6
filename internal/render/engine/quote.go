// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// special are the characters that mean something to a shell anywhere in a word.
const special = " \t\n\r\"'`\\$&|;<>()*?["

var (
	// sometimes matches what means something in some places: comments, home directories and alternatives.
	sometimes = regexp.MustCompile(`^[#~]|[=:]~|\{.*(,|\.\.).*\}`)
	// identifier is a name that a shell can have a variable under.
	identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	// expansion matches $(NAME), which the kubelet expands, and $NAME and ${NAME}, which a shell does.
	expansion = regexp.MustCompile(`\$\([A-Za-z_]\w*\)|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}`)
)

// variables are those that a container declares. Others may come from envFrom or from the orchestrator.
type variables map[string]corev1.EnvVar

func variablesOf(main *corev1.Container) variables {
	v := make(variables, len(main.Env))
	for _, e := range main.Env {
		v[e.Name] = e // of two with one name the kubelet takes the last, too
	}
	return v
}

// quote writes a word so that a shell hands it on as the runtime would have done. What needs no quotes has none: command
// lines of running pods were written without. The kubelet goes over the text first and expands $(NAME) also between
// quotes, so a variable whose value may contain quotes is left to the shell.
func (v variables) quote(word string) string {
	if v.plain(word) {
		return word
	}
	var b strings.Builder
	start, i := 0, 0
	literal := func(end int) {
		if start < end {
			b.WriteString(quoted(word[start:end]))
		}
	}
	for i < len(word) {
		length, name, reference := kubeletReads(word[i:])
		switch {
		case reference && v.knows(name):
			literal(i)
			b.WriteString(`"${` + name + `}"`)
			start = i + length
		case word[i] == '$' && !reference && strings.HasPrefix(word[i:], "$("):
			// The kubelet would look for the end of this reference in the words that follow.
			literal(i + 1)
			start = i + 1
		}
		i += length
	}
	literal(len(word))
	if b.Len() == 0 {
		return quoted(word)
	}
	return b.String()
}

// kubeletReads tells how many bytes the kubelet takes in one step at the beginning of a text, and which variable they
// refer to.
func kubeletReads(text string) (length int, name string, reference bool) {
	switch {
	case strings.HasPrefix(text, "$$"):
		return len("$$"), "", false
	case strings.HasPrefix(text, "$("):
		if end := strings.IndexByte(text, ')'); end > 0 {
			return end + 1, text[len("$("):end], true
		}
	}
	return 1, "", false
}

func (v variables) knows(name string) bool {
	_, declared := v[name]
	return declared && identifier.MatchString(name)
}

// plain tells whether a word means the same to a shell with and without quotes. References are taken to have values
// without anything special unless the container says otherwise.
func (v variables) plain(word string) bool {
	rest := expansion.ReplaceAllStringFunc(word, func(found string) string {
		e, declared := v[strings.Trim(found, "${}()")]
		switch {
		case declared && (e.ValueFrom != nil || v.plainValue(e.Value, len(v))), !declared && strings.HasPrefix(found, "$("):
			return ""
		}
		return found
	})
	return word != "" && !means(rest)
}

// plainValue tells whether a value has nothing special in it, nor do the values it refers to. Depth ends circles.
func (v variables) plainValue(value string, depth int) bool {
	if value == "" || depth == 0 {
		return false
	}
	rest := expansion.ReplaceAllStringFunc(value, func(found string) string {
		e, declared := v[strings.Trim(found, "$()")]
		if declared && strings.HasPrefix(found, "$(") && (e.ValueFrom != nil || v.plainValue(e.Value, depth-1)) {
			return ""
		}
		return found
	})
	return !means(rest)
}

// means tells whether a shell finds something special in a text.
func means(text string) bool {
	return strings.ContainsAny(text, special) || sometimes.MatchString(text)
}

// quoted puts a text between single quotes, inside which a shell finds nothing special but the end.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// embedded is quoted for the text of a user's script. Running pods have it between quotes just as it is; where its own
// quotes happen to do no harm there, it stays that way.
func embedded(script string) string {
	bare := "'" + script + "'"
	for i, piece := range strings.Split(script, "'") {
		if i%2 == 1 && (piece == "" || means(piece)) {
			return quoted(script)
		}
	}
	meant, readable := read(script)
	around, same := read(bare)
	if !readable || !same || len(around) != 1 || len(around[0].words) != 1 {
		return quoted(script)
	}
	if arrived, ok := read(around[0].words[0]); !ok || !reflect.DeepEqual(meant, arrived) {
		return quoted(script)
	}
	return bare
}
