// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply is the only writer of children. It turns intents into server-side applies, sends none for what is
// already so, refuses to touch what belongs to others, and removes what is no longer wanted.
package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// hashVersion is part of every stored hash, so that a later way of hashing cannot be mistaken for this one.
const hashVersion = "v1:"

// Intent is one child as it will be sent: exactly the fields the operator has an opinion on, and their hash.
// It is immutable once prepared, so one intent serves every reconcile of a generation.
type Intent struct {
	Key  recent.Key
	Hash string

	gvk  schema.GroupVersionKind
	body map[string]any
}

// Prepare turns a desired object into an intent owned by owner.
func Prepare(scheme *runtime.Scheme, owner, desired client.Object) (Intent, error) {
	gvk, err := apiutil.GVKForObject(desired, scheme)
	if err != nil {
		return Intent{}, fmt.Errorf("find the kind of %q: %w", desired.GetName(), err)
	}
	ownerGVK, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return Intent{}, fmt.Errorf("find the kind of owner %q: %w", owner.GetName(), err)
	}
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	if err != nil {
		return Intent{}, fmt.Errorf("convert %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	body = dropUnset(body)
	body["apiVersion"], body["kind"] = gvk.ToAPIVersionAndKind()
	u := &unstructured.Unstructured{Object: body}
	u.SetLabels(with(u.GetLabels(), names.LabelApplied, names.OperatorName))
	if err := unstructured.SetNestedSlice(body, []any{ownerReference(ownerGVK, owner)}, "metadata", "ownerReferences"); err != nil {
		return Intent{}, fmt.Errorf("set the owner of %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return Intent{}, fmt.Errorf("encode %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	sum := sha256.Sum256(encoded)
	hash := hashVersion + hex.EncodeToString(sum[:])
	u.SetAnnotations(with(u.GetAnnotations(), names.AnnotationAppliedHash, hash))
	return Intent{Key: recent.KeyOf(gvk.GroupKind(), desired), Hash: hash, gvk: gvk, body: body}, nil
}

// PrepareAll prepares a stage: objects among which order does not matter.
func PrepareAll(scheme *runtime.Scheme, owner client.Object, desired []client.Object) ([]Intent, error) {
	stage := make([]Intent, 0, len(desired))
	for _, obj := range desired {
		intent, err := Prepare(scheme, owner, obj)
		if err != nil {
			return nil, err
		}
		stage = append(stage, intent)
	}
	return stage, nil
}

func ownerReference(gvk schema.GroupVersionKind, owner client.Object) map[string]any {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return map[string]any{
		"apiVersion": apiVersion, "kind": kind, "name": owner.GetName(), "uid": string(owner.GetUID()),
		"controller": true, "blockOwnerDeletion": true,
	}
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// alwaysEncoded are members that Go writes as {} even when nobody set them. Sending them would claim fields we have no
// opinion on. Other empty objects stay: "emptyDir: {}" and "labelSelector: {}" mean something.
var alwaysEncoded = map[string]bool{
	"metadata": true, "resources": true, "spec": true, "status": true, "strategy": true,
}

// dropUnset removes what a typed object encodes without having been set: nulls, empty lists, a few empty objects and
// empty names. Identical applies then change nothing on the server.
func dropUnset(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, value := range m {
		if value = dropUnsetValue(value); value == nil {
			continue
		}
		if inner, ok := value.(map[string]any); ok && len(inner) == 0 && alwaysEncoded[key] {
			continue
		}
		if value == "" && key == "name" {
			continue
		}
		out[key] = value
	}
	return out
}

func dropUnsetValue(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return dropUnset(v)
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = dropUnsetValue(v[i])
		}
		return out
	}
	return value
}
