// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// mark is how a comment begins that is meant for the page.
	mark = "# -- "

	// Marks of a page.
	begin = "<!-- values -->\n"
	end   = "<!-- end of values -->\n"

	// shared is the section that every part has, and that is told of once.
	shared = "global"
)

// value is a key that can be set.
type value struct {
	key, preset, meaning string
}

// parse reads the documented keys of a values file. Below a key with a comment nothing is looked for: it is set as a whole.
func parse(text, prefix string) ([]value, error) {
	document := &yaml.Node{}
	if err := yaml.Unmarshal([]byte(text), document); err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	if len(document.Content) == 0 {
		return nil, nil
	}
	return walk(document.Content[0], strings.Split(text, "\n"), prefix)
}

func walk(node *yaml.Node, lines []string, prefix string) ([]value, error) {
	var found []value
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, set := node.Content[i], node.Content[i+1]
		path := prefix + key.Value
		if prefix != "" && path == prefix+shared && strings.Count(prefix, ".") == 1 {
			continue
		}
		meaning, documented := "", false
		if key.Line >= 2 {
			meaning, documented = strings.CutPrefix(strings.TrimSpace(lines[key.Line-2]), mark)
		}
		switch {
		case documented:
			preset, err := encode(set)
			if err != nil {
				return nil, fmt.Errorf("default of %s: %w", path, err)
			}
			found = append(found, value{key: path, preset: preset, meaning: meaning})
		case set.Kind == yaml.MappingNode && len(set.Content) > 0:
			below, err := walk(set, lines, path+".")
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		default:
			return nil, fmt.Errorf("%s has no comment: say in the line above it, behind %q, what it is for", path, mark)
		}
	}
	return found, nil
}

// encode writes a default in one line.
func encode(node *yaml.Node) (string, error) {
	var set any
	if err := node.Decode(&set); err != nil {
		return "", err
	}
	line := &bytes.Buffer{}
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(set)
	return strings.TrimSpace(line.String()), err
}

// table is the part of a page.
func table(values []value) string {
	if len(values) == 0 {
		return "There are none.\n"
	}
	text := &strings.Builder{}
	text.WriteString("| Key | Default | Meaning |\n|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(text, "| `%s` | `%s` | %s |\n", v.key, strings.ReplaceAll(v.preset, "|", `\|`), strings.ReplaceAll(v.meaning, "|", `\|`))
	}
	return text.String()
}

// insert puts a table between the marks of a page.
func insert(page, table string) (string, error) {
	before, rest, found := strings.Cut(page, begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		return "", errors.New("the page lacks the marks " + strings.TrimSpace(begin) + " and " + strings.TrimSpace(end))
	}
	return before + begin + table + end + after, nil
}
