// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

// What finds problems besides the rules of admission, in their place in Problem.Rule.
const (
	ruleText      = "text"
	ruleFields    = "fields"
	ruleNames     = "names"
	ruleSchema    = "schema"
	ruleRendering = "rendering"
)

// Problem is one thing that the user has to change, or should know.
type Problem struct {
	// Source is the file, Object the kind and name of the object in it. Object is empty where there is none to name.
	Source, Object string
	// Document is the number of the document in its file, Line the line of the field that is named, or of the innermost
	// one around it that is there. Both count from one, and are zero where nobody knows.
	Document, Line int
	// Rule is the rule of admission that is broken, or what else found the problem.
	Rule  string
	Level admission.Level
	// Err names the field.
	Err error
}

// Error is one line: where, which object, which field, what is wrong.
func (p Problem) Error() string {
	parts := []string{p.Source}
	if p.Object != "" {
		parts = append(parts, p.Object)
	}
	return strings.Join(append(parts, p.Text()), ": ")
}

// Text is which field, and what is wrong with it, in one line.
func (p Problem) Text() string {
	text := p.Err.Error()
	if err, ok := errors.AsType[*field.Error](p.Err); ok && p.Level != admission.Refusal {
		text = admission.Finding{Level: p.Level, Err: err}.Text()
	}
	return strings.Join(strings.Fields(text), " ")
}

// Field is the path of the field, empty where none is named.
func (p Problem) Field() string {
	if err, ok := errors.AsType[*field.Error](p.Err); ok {
		return err.Field
	}
	return ""
}

// alone is the item of an object that is not in a list.
const alone = -1

// passage is the part of a file in which an object stands.
type passage struct {
	source string
	// content is that of the document, with so many lines of the file before it, and so many bytes up to its end.
	content    []byte
	lines, end int
	// number is that of the document in its file, item that of the object in the document.
	number, item int
}

// next is the passage of the document behind this one.
func (p passage) next(file, content []byte) passage {
	next := passage{source: p.source, end: p.end, number: p.number + 1, item: alone}
	content = bytes.TrimRight(content, "\n") // the reader ends the last line of a file, whether or not the file does
	start := bytes.Index(file[p.end:], content)
	if len(content) == 0 || start < 0 {
		return next
	}
	start += p.end
	next.content, next.lines, next.end = content, bytes.Count(file[:start], []byte("\n")), start+len(content)
	return next
}

// problem is that the document cannot be read.
func (p passage) problem(err error) Problem {
	return Problem{Source: p.source, Document: p.number, Line: p.lines + 1, Rule: ruleText, Level: admission.Refusal, Err: err}
}

// problems are errors of one kind about one object.
func (p passage) problems(object, rule string, errs field.ErrorList) []Problem {
	problems := make([]Problem, 0, len(errs))
	for _, err := range errs {
		problems = append(problems, Problem{
			Source: p.source, Object: object, Document: p.number, Line: p.line(err.Field), Rule: rule, Level: admission.Refusal, Err: err,
		})
	}
	return problems
}

// line is that of a field in the file, or of what is there of the way to it.
func (p passage) line(path string) int {
	var document yaml.Node
	if len(p.content) == 0 || yaml.Unmarshal(p.content, &document) != nil || len(document.Content) == 0 {
		return 0
	}
	node := document.Content[0]
	line := node.Line
	steps := steps(path)
	if p.item != alone {
		steps = append([]string{"items", strconv.Itoa(p.item)}, steps...)
	}
	for _, step := range steps {
		key, value := below(node, step)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return p.lines + line
}

// below is a member of a mapping with its key, or an item of a list.
func below(node *yaml.Node, step string) (key, value *yaml.Node) {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// steps takes a path apart: members are behind dots, keys and numbers in brackets.
func steps(path string) []string {
	var all []string
	for path != "" {
		if strings.HasPrefix(path, "[") {
			key, rest, _ := strings.Cut(path[1:], "]")
			all, path = append(all, key), rest
			continue
		}
		path = strings.TrimPrefix(path, ".")
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		all, path = append(all, path[:end]), path[end:]
	}
	return all
}
