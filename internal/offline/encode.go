// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"fmt"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
)

// encoder turns rendered objects into what is sent to the API server.
type encoder struct{ scheme *runtime.Scheme }

func newEncoder() encoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme,
		lwsv1.AddToScheme, grovev1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return encoder{scheme: scheme}
}

// applied is an object as it would be applied: with its kind, our label and its owner, and without what a Go type encodes
// although nobody has set it. Two things are left out because nothing offline knows them: the owner's uid, and the hash
// that is made with it.
func (e encoder) applied(rendered render.Object, owner client.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(rendered.Object, e.scheme)
	if err != nil {
		return nil, fmt.Errorf("find the kind of %q: %w", rendered.GetName(), err)
	}
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(rendered.Object)
	if err != nil {
		return nil, fmt.Errorf("convert %s %q: %w", kind.Kind, rendered.GetName(), err)
	}
	delete(body, "status") // the API server's and the controllers' to write, never ours
	object := &unstructured.Unstructured{Object: withoutUnset(body)}
	object.SetGroupVersionKind(kind)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[names.LabelApplied] = names.OperatorName
	object.SetLabels(labels)
	if rendered.Belonging != belonging.Retained {
		setOwners(object, ownerOf(rendered.Belonging, owner))
	}
	return object, nil
}

// ownerOf is the reference to an owner. One that shares the object with others does not control it.
func ownerOf(belongs belonging.Belonging, owner client.Object) map[string]any {
	apiVersion, kind := owner.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	reference := map[string]any{"apiVersion": apiVersion, "kind": kind, "name": owner.GetName()}
	if !belongs.IsShared() {
		reference["controller"], reference["blockOwnerDeletion"] = true, true
	}
	return reference
}

func setOwners(object *unstructured.Unstructured, references ...any) {
	metadata, _ := object.Object["metadata"].(map[string]any)
	metadata["ownerReferences"] = references
}

// joinOwners adds the owners of one rendering of a shared object to those of another.
func joinOwners(object, same *unstructured.Unstructured) {
	owners := func(o *unstructured.Unstructured) []any {
		metadata, _ := o.Object["metadata"].(map[string]any)
		references, _ := metadata["ownerReferences"].([]any)
		return references
	}
	setOwners(object, append(owners(object), owners(same)...)...)
}

// unsetWhenEmpty are members that Go types encode as {} though nobody has set them. In other places an empty object is a
// statement, as in "emptyDir: {}".
var unsetWhenEmpty = map[string]bool{"metadata": true, "resources": true, "spec": true, "status": true, "strategy": true}

// withoutUnset leaves out nulls, empty lists, empty names and the members above. A test holds it to what the operator's
// own writer leaves out.
func withoutUnset(members map[string]any) map[string]any {
	kept := make(map[string]any, len(members))
	for key, value := range members {
		switch v := value.(type) {
		case nil:
			continue
		case string:
			if v == "" && key == "name" {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
			value = eachWithoutUnset(v)
		case map[string]any:
			inner := withoutUnset(v)
			if len(inner) == 0 && unsetWhenEmpty[key] {
				continue
			}
			value = inner
		}
		kept[key] = value
	}
	return kept
}

func eachWithoutUnset(items []any) []any {
	kept := make([]any, len(items))
	for i, item := range items {
		switch v := item.(type) {
		case map[string]any:
			kept[i] = withoutUnset(v)
		case []any:
			kept[i] = eachWithoutUnset(v)
		default:
			kept[i] = item
		}
	}
	return kept
}
