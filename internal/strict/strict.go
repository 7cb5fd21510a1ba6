// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package strict reads documents that people write, and names everything in them that does not fit, each with its path.
package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Parse reads one YAML or JSON document. A key that is given twice is an error. The result is nil for an empty document.
func Parse(content []byte) (map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return nil, err
	}
	var document any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &document); err != nil {
		return nil, err
	}
	if document == nil {
		return nil, nil
	}
	members, ok := document.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a document has to be a mapping with apiVersion and kind, not %s", words(reflect.TypeOf(document)))
	}
	return members, nil
}

// Decode fills a T from a document and returns everything that does not fit, each with the path of its field. What the
// document does not mention keeps the value it has.
func Decode[T any](document map[string]any, into *T) field.ErrorList {
	if fit(document, new(T)) == nil && fit(document, into) == nil {
		return nil
	}
	s := search{fit: func(v any) error { return fit(v, new(T)) }}
	s.look(document, nil, func(v any) any { return v })
	return s.found
}

// fit decodes strictly: the first unknown field and the first value of a wrong type are errors.
func fit[T any](document any, into *T) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return err
	}
	return errors.Join(unknown...)
}

// search finds the members of a document that do not fit its type. The decoder alone stops at the first value that it
// cannot read and does not say where a quantity stands, so every member is tried alone, from the outside in.
type search struct {
	fit   func(any) error
	found field.ErrorList
}

// look tries one member. Around puts a value into the place of the member in an otherwise empty document.
func (s *search) look(member any, path *field.Path, around func(any) any) {
	if err := s.fit(around(outline(member))); err != nil {
		s.found = append(s.found, misfit(path, member, err))
		return
	}
	switch m := member.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(m)) {
			s.look(m[key], child(path, key), func(v any) any { return around(map[string]any{key: v}) })
		}
	case []any:
		for i := range m {
			s.look(m[i], path.Index(i), func(v any) any { return around([]any{v}) })
		}
	}
}

// outline is a member without what is in it.
func outline(member any) any {
	switch member.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return member
}

// child is the path of a member in the form that validation uses: services are keys of a map, all else is a field.
func child(path *field.Path, key string) *field.Path {
	switch {
	case path == nil:
		return field.NewPath(key)
	case path.String() == "spec.services":
		return path.Key(key)
	}
	return path.Child(key)
}

func misfit(path *field.Path, value any, err error) *field.Error {
	if _, ok := errors.AsType[kjson.FieldError](err); ok {
		return field.Forbidden(path, "there is no such field")
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		detail := fmt.Sprintf("must be %s, not %s", words(wrong.Type), words(reflect.TypeOf(value)))
		if wrong.Type.Kind() == reflect.String {
			detail += "; put it in quotes"
		}
		return field.TypeInvalid(path, value, detail)
	}
	return field.Invalid(path, value, err.Error())
}

// words names a type for people who write YAML.
func words(t reflect.Type) string {
	if t == nil {
		return "empty"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	case reflect.Pointer:
		return words(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
