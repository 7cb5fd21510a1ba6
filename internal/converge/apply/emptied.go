// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// withoutEmpty encodes an object again without the members that are empty objects, and tells whether there are any. The server
// takes away the fields that are no longer named and then finds null where {} was sent, which most schemas refuse; giving the
// whole member up first avoids that.
func withoutEmpty(encoded []byte) (without []byte, emptied bool, err error) {
	var body map[string]any
	if err := utiljson.Unmarshal(encoded, &body); err != nil {
		return nil, false, err
	}
	if !hasEmptyObject(body) {
		return nil, false, nil
	}
	without, err = json.Marshal(withoutEmptyObjects(body))
	return without, true, err
}

func hasEmptyObject(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			return true
		}
		for _, inner := range v {
			if hasEmptyObject(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasEmptyObject)
	}
	return false
}

// withoutEmptyObjects copies a value and leaves out members that are empty objects.
func withoutEmptyObjects(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, inner := range v {
			if m, ok := inner.(map[string]any); ok && len(m) == 0 {
				continue
			}
			out[key] = withoutEmptyObjects(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withoutEmptyObjects(v[i])
		}
		return out
	}
	return value
}
