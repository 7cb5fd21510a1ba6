// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// NameTakenError says that a child cannot exist because something else has its name. Only a person can resolve that.
type NameTakenError struct {
	Key    recent.Key
	Holder string
}

// Error names the object, who holds it and the ways out.
func (e *NameTakenError) Error() string {
	return fmt.Sprintf("%s exists already and belongs to %s: delete or rename it, or rename the graph or service",
		e.Key, e.Holder)
}

// holder describes to whom an object belongs.
func holder(obj client.Object) string {
	if c := metav1.GetControllerOf(obj); c != nil {
		return c.Kind + " " + c.Name
	}
	return "no controller that we know of"
}

// madeByOperator recognises what this operator or the reference made, by the marks both leave.
func madeByOperator(obj client.Object) bool {
	labels := obj.GetLabels()
	return obj.GetAnnotations()[names.AnnotationAppliedHash] != "" || labels[names.LabelApplied] == names.OperatorName ||
		labels[names.LabelAppManagedBy] == names.OperatorName || labels[names.LabelManagedBy] == names.OperatorName
}

// joinOwners encodes an intent with the owner references that a live object has already, because references that an apply
// leaves out are taken away. They keep their order, so that owners who differ in nothing else send the same. None of them is its
// controller, which the reference makes the first.
func joinOwners(intent Intent, live client.Object) ([]byte, error) {
	body, err := intent.body()
	if err != nil {
		return nil, err
	}
	metadata, _ := body["metadata"].(map[string]any)
	own, _ := metadata["ownerReferences"].([]any)
	mine, _ := own[0].(map[string]any)
	var refs []any
	for _, r := range live.GetOwnerReferences() {
		if string(r.UID) == mine["uid"] {
			own = nil
		}
		ref := map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name, "uid": string(r.UID)}
		if r.Controller != nil && *r.Controller {
			ref["controller"] = false
		}
		refs = append(refs, ref)
	}
	metadata["ownerReferences"] = append(refs, own...)
	return json.Marshal(body)
}

// builtIn manage fields of children right after their creation, before our cache may have shown the child at all.
var builtIn = map[string]bool{"kube-controller-manager": true}

// hadAnotherMaker tells from the answer to a first apply that the object existed before and was not ours: somebody else
// manages fields of it without having made us its owner.
func hadAnotherMaker(answer client.Object, owner types.UID) bool {
	foreign := false
	ours := `k:{"uid":"` + string(owner) + `"}`
	for _, m := range answer.GetManagedFields() {
		if m.Manager == names.FieldManager || m.Subresource != "" || builtIn[m.Manager] || m.FieldsV1 == nil {
			continue
		}
		// The key is JSON inside JSON, so its quotes are escaped.
		if strings.Contains(strings.ReplaceAll(m.FieldsV1.GetRawString(), `\"`, `"`), ours) {
			return false
		}
		foreign = true
	}
	return foreign
}

// release undoes a first apply that hit a stranger's object. Applying an empty intent gives up every field we own and
// changes nothing that the stranger set. It is remembered, so that the object is only looked at from now on.
func (a *Applier) release(ctx context.Context, owner client.Object, intent Intent, taken client.Object) outcome {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(intent.gvk)
	empty.SetName(intent.Key.Name)
	empty.SetNamespace(intent.Key.Namespace)
	empty.SetUID(taken.GetUID())
	a.memory.set(owner.GetUID(), intent.Key, state{stranger: true})
	encoded, err := empty.MarshalJSON()
	if err != nil {
		return outcome{failed: fmt.Errorf("encode nothing for %s: %w", intent.Key, err)}
	}
	left, err := a.patch(ctx, intent, encoded, client.ForceOwnership)
	if err != nil {
		return outcome{failed: fmt.Errorf("release %s, which is not ours: %w", intent.Key, err)}
	}
	return outcome{failed: &NameTakenError{Key: intent.Key, Holder: holder(left)}}
}
