// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sendEmptied applies an object in which something became an empty object. The server takes away the fields we no longer
// name and then finds null where {} was sent, which most schemas refuse; giving the whole member up first avoids that.
func (a *Applier) sendEmptied(ctx context.Context, u *unstructured.Unstructured) error {
	without, _ := withoutEmptyObjects(u.Object).(map[string]any)
	if err := a.send(ctx, &unstructured.Unstructured{Object: without}); err != nil {
		return err
	}
	return a.send(ctx, u)
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
