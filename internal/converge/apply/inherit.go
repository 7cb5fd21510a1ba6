// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// inherit makes us the owner of what the reference has set in the spec of a child that we took over from it, so that the apply that
// follows takes away what it does not name. Without that the reference would own its fields for ever, and none of them would go.
//
// It waits for a change of more than the number of replicas: pods that run well are not replaced for what the reference left in
// their template. The marks of the reference go, too, because what they say is wrong after the change; it then writes a spec anew.
func (a *Applier) inherit(ctx context.Context, intent Intent, live client.Object) error {
	marks := live.GetAnnotations()
	if marks[names.AnnotationReferenceHash] == "" || marks[names.AnnotationAppliedHash] == "" {
		return nil
	}
	changes, err := changesSpec(intent, live)
	if err != nil || !changes {
		return err
	}
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(intent.gvk)
	if err := a.reader.Get(ctx, intent.Key.NamespacedName, now); err != nil {
		return err
	}
	managed, err := inherited(now.GetManagedFields())
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": now.GetUID(), "resourceVersion": now.GetResourceVersion(), "managedFields": managed,
		"annotations": map[string]any{names.AnnotationReferenceHash: nil, names.AnnotationReferenceGeneration: nil},
	}})
	if err != nil {
		return err
	}
	return a.writer.Patch(ctx, now, client.RawPatch(types.MergePatchType, body), client.FieldOwner(names.FieldManager))
}

// changesSpec tells whether an intent asks for more than another number of replicas.
func changesSpec(intent Intent, live client.Object) (bool, error) {
	if _, bare := live.(*metav1.PartialObjectMetadata); bare {
		return false, nil
	}
	body, err := intent.body()
	if err != nil {
		return false, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	spec, _ := body["spec"].(map[string]any)
	want := maps.Clone(spec)
	delete(want, "replicas")
	return !containedIn("", "spec", want, fields["spec"]), nil
}

// inherited are managed fields in which the spec that the reference has written is ours. The rest of what it has written stays with it.
func inherited(managed []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error) {
	const spec = "f:spec"
	var all []metav1.ManagedFieldsEntry
	theirs, ours := map[string]any{}, -1
	for _, m := range managed {
		if m.Manager == names.FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			ours = len(all)
		}
		if m.Manager == names.FieldManagerReference && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == "" && m.FieldsV1 != nil {
			fields := map[string]any{}
			if err := json.Unmarshal([]byte(m.FieldsV1.GetRawString()), &fields); err != nil {
				return nil, fmt.Errorf("read the fields of %s: %w", m.Manager, err)
			}
			part, _ := fields[spec].(map[string]any)
			unite(theirs, part)
			delete(fields, spec)
			if err := setFields(&m, fields); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
	}
	if ours < 0 || len(theirs) == 0 {
		return managed, nil
	}
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(all[ours].FieldsV1.GetRawString()), &fields); err != nil {
		return nil, fmt.Errorf("read our own fields: %w", err)
	}
	unite(fields, map[string]any{spec: theirs})
	return all, setFields(&all[ours], fields)
}

// unite adds fields to a set of them. Sets are trees of maps.
func unite(into, more map[string]any) {
	for key, value := range more {
		inner, _ := value.(map[string]any)
		known, ok := into[key].(map[string]any)
		if !ok {
			known = map[string]any{}
			into[key] = known
		}
		unite(known, inner)
	}
}

func setFields(m *metav1.ManagedFieldsEntry, fields map[string]any) error {
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	m.FieldsV1 = metav1.NewFieldsV1(string(text))
	return nil
}
