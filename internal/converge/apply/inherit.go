// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// lastAttempt bounds how often somebody else may have been faster.
const lastAttempt = 4

// inherit makes us the owner of what the reference has set in the spec of a child that we take over from it, so that the apply that
// follows takes away what it does not name. Without that the reference would own its fields for ever, and none of them would go.
//
// It waits for a change of more than the number of replicas: pods that run well are not replaced for what the reference left in
// their template. A change that was made before our first pass counts like any later one. The marks of the reference go, too,
// because what they say is wrong after the change; it then writes a spec anew.
func (a *Applier) inherit(ctx context.Context, intent Intent, live client.Object) error {
	marks := live.GetAnnotations()
	if marks[names.AnnotationReferenceHash] == "" {
		return nil
	}
	if _, bare := live.(*metav1.PartialObjectMetadata); bare {
		whole, err := a.whole(ctx, intent)
		if err != nil {
			return err
		}
		live = whole
	}
	changes, err := changesSpec(intent, live)
	applied := marks[names.AnnotationAppliedHash]
	if err != nil || !changes && (applied == "" || applied == intent.Hash) {
		return err
	}
	// The caches keep no managed fields.
	now, err := a.whole(ctx, intent)
	if err != nil {
		return err
	}
	if !changes {
		if changes, err = letsGo(intent, now.GetManagedFields()); err != nil || !changes {
			return err
		}
	}
	return a.succeed(ctx, intent, now)
}

// whole reads a child with everything that the API server knows of it.
func (a *Applier) whole(ctx context.Context, intent Intent) (client.Object, error) {
	whole, err := a.blank(intent)
	if err != nil {
		return nil, err
	}
	return whole, a.reader.Get(ctx, intent.Key.NamespacedName, whole)
}

// unmixed ends a first apply. Where it mixed our fields with what the reference had left, the rest of that goes now, with the pods
// that are replaced anyway.
func (a *Applier) unmixed(ctx context.Context, p pass, intent Intent, answer client.Object) outcome {
	mixed, err := mixes(answer)
	for now, attempt := answer, 0; err == nil && mixed; attempt++ {
		// Controllers write to what has just been changed, and no later pass would see that something is left to do.
		if err = a.succeed(ctx, intent, now); !apierrors.IsConflict(err) || attempt == lastAttempt {
			break
		}
		now, err = a.whole(ctx, intent)
	}
	switch {
	case err != nil:
		return outcome{live: answer, failed: fmt.Errorf("take %s over from the reference: %w", intent.Key, err)}
	case mixed:
		return a.update(ctx, p, intent, answer)
	}
	return a.answered(p.owner, intent, answer)
}

// succeed makes the reference's fields in the spec of a child ours and takes its marks off.
func (a *Applier) succeed(ctx context.Context, intent Intent, now client.Object) error {
	managed, err := inherited(now.GetManagedFields(), intent.gvk.GroupVersion().String())
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
	answer := &metav1.PartialObjectMetadata{}
	answer.SetGroupVersionKind(intent.gvk)
	answer.SetNamespace(now.GetNamespace())
	answer.SetName(now.GetName())
	return a.writer.Patch(ctx, answer, client.RawPatch(types.MergePatchType, body), client.FieldOwner(names.FieldManager))
}

// mixes tells whether a first apply went to a child of the reference and set what nobody had set before: its owner was changed while
// nobody worked on it. What the change has taken out is then still there.
func mixes(answer client.Object) (bool, error) {
	if answer.GetAnnotations()[names.AnnotationReferenceHash] == "" {
		return false, nil
	}
	ours, others := map[string]any{}, map[string]any{}
	for _, m := range answer.GetManagedFields() {
		fields, err := fieldsOf(m)
		if err != nil {
			return false, err
		}
		spec, _ := fields[specField].(map[string]any)
		if isOurs(m) {
			unite(ours, spec)
		} else {
			unite(others, spec)
		}
	}
	return exceeds(ours, others), nil
}

// exceeds tells whether a set has a field that another lacks. Numbers of replicas do not count.
func exceeds(set, other map[string]any) bool {
	for path, inner := range set {
		if path == "." || path == "f:"+replicasMember {
			continue
		}
		known, ok := other[path].(map[string]any)
		below, _ := inner.(map[string]any)
		if !ok || exceeds(below, known) {
			return true
		}
	}
	return false
}

// replicasMember is what scaling changes, wherever it stands: a PodCliqueSet has it in every clique.
const replicasMember = "replicas"

// changesSpec tells whether an intent asks for more than other numbers of replicas.
func changesSpec(intent Intent, live client.Object) (bool, error) {
	spec, err := specOf(intent)
	if err != nil || spec == nil {
		return false, err // a role, an account: it has no spec in which something of the reference could be left
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	return !containedIn("", "spec", withoutReplicas(spec), fields["spec"]), nil
}

func specOf(intent Intent) (map[string]any, error) {
	body, err := intent.body()
	if err != nil {
		return nil, err
	}
	spec, _ := body["spec"].(map[string]any)
	return spec, nil
}

// withoutReplicas is a value without any number of replicas in it.
func withoutReplicas(value any) any {
	switch v := value.(type) {
	case map[string]any:
		rest := make(map[string]any, len(v))
		for key, inner := range v {
			if key != replicasMember {
				rest[key] = withoutReplicas(inner)
			}
		}
		return rest
	case []any:
		rest := make([]any, len(v))
		for i := range v {
			rest[i] = withoutReplicas(v[i])
		}
		return rest
	}
	return value
}

// letsGo tells whether an intent no longer names some field of the spec that we applied before.
func letsGo(intent Intent, managed []metav1.ManagedFieldsEntry) (bool, error) {
	spec, err := specOf(intent)
	if err != nil {
		return false, err
	}
	for _, m := range managed {
		if !isOurs(m) {
			continue
		}
		fields, err := fieldsOf(m)
		if err != nil {
			return false, err
		}
		applied, _ := fields[specField].(map[string]any)
		return lacks(spec, applied), nil
	}
	return false, nil
}

// lacks tells whether some field of a set is not in a value. Numbers of replicas do not count.
func lacks(value any, set map[string]any) bool {
	for path, inner := range set {
		below, _ := inner.(map[string]any)
		kind, name, _ := strings.Cut(path, ":")
		switch kind {
		case "f":
			members, _ := value.(map[string]any)
			member, ok := members[name]
			if name != replicasMember && (!ok || lacks(member, below)) {
				return true
			}
		case "k":
			elements, _ := value.([]any)
			at := slices.IndexFunc(elements, func(e any) bool { return hasKeys(e, name) })
			if at < 0 || lacks(elements[at], below) {
				return true
			}
		}
	}
	return false
}

// hasKeys tells whether an element of a list is the one of these keys. The server adds keys that have a default.
func hasKeys(element any, keys string) bool {
	members, _ := element.(map[string]any)
	var want map[string]any
	if err := json.Unmarshal([]byte(keys), &want); err != nil {
		return false
	}
	for key, value := range want {
		if got, ok := members[key]; ok && !containedIn("", key, value, got) {
			return false
		}
	}
	return true
}

// specField is the spec in a set of fields.
const specField = "f:spec"

func isOurs(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == names.FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
}

func isTheirs(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == names.FieldManagerReference && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == "" && m.FieldsV1 != nil
}

// fieldsOf are the fields of an entry, as a tree of maps.
func fieldsOf(m metav1.ManagedFieldsEntry) (map[string]any, error) {
	fields := map[string]any{}
	if m.FieldsV1 == nil {
		return fields, nil
	}
	if err := json.Unmarshal([]byte(m.FieldsV1.GetRawString()), &fields); err != nil {
		return nil, fmt.Errorf("read the fields of %s: %w", m.Manager, err)
	}
	return fields, nil
}

// inherited are managed fields in which the spec that the reference has written is ours, whether or not we have applied anything
// before. The rest of what it has written stays with it.
func inherited(managed []metav1.ManagedFieldsEntry, version string) ([]metav1.ManagedFieldsEntry, error) {
	var all []metav1.ManagedFieldsEntry
	theirs, ours := map[string]any{}, -1
	for _, m := range managed {
		if isOurs(m) {
			ours = len(all)
		}
		if isTheirs(m) {
			fields, err := fieldsOf(m)
			if err != nil {
				return nil, err
			}
			part, _ := fields[specField].(map[string]any)
			unite(theirs, part)
			delete(fields, specField)
			if err := setFields(&m, fields); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
	}
	if len(theirs) == 0 {
		return managed, nil
	}
	if ours < 0 {
		ours = len(all)
		all = append(all, metav1.ManagedFieldsEntry{
			Manager: names.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: version, FieldsType: "FieldsV1",
		})
	}
	fields, err := fieldsOf(all[ours])
	if err != nil {
		return nil, err
	}
	unite(fields, map[string]any{specField: theirs})
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
