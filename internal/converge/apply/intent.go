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
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
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

	gvk       schema.GroupVersionKind
	ownerKind string
	belongs   belonging.Belonging
	// encoded is what is sent. It is rarely looked into, and takes a fraction of the memory that it has as maps.
	encoded []byte
	// labels and annotations are those in it, which are looked at whenever a child has changed.
	labels, annotations map[string]string

	// waits tells that the child stays as it is for now. One that is not there is made all the same.
	waits bool
}

// Waiting returns the plan with the children at these keys left as they are: their turn to change comes later.
func (p Plan) Waiting(keys map[recent.Key]bool) Plan {
	if len(keys) == 0 {
		return p
	}
	held := make(Plan, len(p))
	for i, stage := range p {
		held[i] = slices.Clone(stage)
		for j := range held[i] {
			held[i][j].waits = keys[held[i][j].Key]
		}
	}
	return held
}

// Without returns the plan without children of the given kinds.
func (p Plan) Without(kinds ...string) Plan {
	rest := make(Plan, 0, len(p))
	for _, stage := range p {
		rest = append(rest, slices.DeleteFunc(slices.Clone(stage), func(i Intent) bool { return slices.Contains(kinds, i.Key.Kind) }))
	}
	return rest
}

// Prepare turns a desired object into an intent of owner.
func Prepare(scheme *runtime.Scheme, owner, desired client.Object, belongs belonging.Belonging) (Intent, error) {
	gvk, err := apiutil.GVKForObject(desired, scheme)
	if err != nil {
		return Intent{}, fmt.Errorf("find the kind of %q: %w", desired.GetName(), err)
	}
	ownerGVK, err := apiutil.GVKForObject(owner, scheme)
	if err != nil {
		return Intent{}, fmt.Errorf("find the kind of owner %q: %w", owner.GetName(), err)
	}
	body, err := opinions(desired)
	if err != nil {
		return Intent{}, fmt.Errorf("convert %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	delete(body, "status") // never ours to apply, and some kinds encode one always
	body["apiVersion"], body["kind"] = gvk.ToAPIVersionAndKind()
	u := &unstructured.Unstructured{Object: body}
	u.SetLabels(with(u.GetLabels(), names.LabelApplied, names.OperatorName))
	var owners []any
	if belongs != belonging.Retained {
		owners = []any{ownerReference(ownerGVK, owner, belongs)}
	}
	if !belongs.IsShared() {
		// All owners of a shared child must agree on its hash, and their references are what they differ in.
		setOwners(body, owners)
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return Intent{}, fmt.Errorf("encode %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	hash := hashOf(encoded)
	u.SetAnnotations(with(u.GetAnnotations(), names.AnnotationAppliedHash, hash))
	setOwners(body, owners)
	if encoded, err = json.Marshal(body); err != nil {
		return Intent{}, fmt.Errorf("encode %s %q: %w", gvk.Kind, desired.GetName(), err)
	}
	return Intent{
		Key: recent.KeyOf(gvk.GroupKind(), desired), Hash: hash, gvk: gvk, ownerKind: ownerGVK.Kind, belongs: belongs,
		encoded: encoded, labels: u.GetLabels(), annotations: u.GetAnnotations(),
	}, nil
}

// hashOf is what tells one intent from another.
func hashOf(encoded []byte) string {
	sum := sha256.Sum256(encoded)
	return hashVersion + hex.EncodeToString(sum[:])
}

// body is what is sent, to be looked into.
func (i Intent) body() (map[string]any, error) {
	var body map[string]any
	if err := utiljson.Unmarshal(i.encoded, &body); err != nil {
		return nil, fmt.Errorf("decode what is wanted of %s: %w", i.Key, err)
	}
	return body, nil
}

func ownerReference(gvk schema.GroupVersionKind, owner client.Object, belongs belonging.Belonging) map[string]any {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	ref := map[string]any{"apiVersion": apiVersion, "kind": kind, "name": owner.GetName(), "uid": string(owner.GetUID())}
	if !belongs.IsShared() {
		ref["controller"], ref["blockOwnerDeletion"] = true, true
	}
	return ref
}

func setOwners(body map[string]any, refs []any) {
	if metadata, _ := body["metadata"].(map[string]any); len(refs) > 0 {
		metadata["ownerReferences"] = refs
	}
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

// meansNothing are members that say nothing when they are empty; Go even writes some of them when nobody set them.
// Sending them would claim fields we have no opinion on. Other empty objects stay: "emptyDir: {}" and "labelSelector: {}"
// mean something.
var meansNothing = map[string]bool{
	"metadata": true, "spec": true, "status": true, "strategy": true, "labels": true, "annotations": true,
	"resources": true, "requests": true, "limits": true, "custom": true,
}

// verbatim are members whose content the operator passes on without knowing its schema.
var verbatim = map[string]bool{"eppConfig": true}

// opinions are the fields that were set in an object.
func opinions(obj any) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	if _, untyped := obj.(runtime.Unstructured); untyped {
		fields = runtime.DeepCopyJSON(fields) // these are still its own
	}
	dropUnset(fields)
	return fields, nil
}

// dropUnset removes what a typed object encodes without having been set: nulls, a few empty objects and empty names.
// Identical applies then change nothing on the server. Empty lists stay: what has them was written so by a user.
func dropUnset(m map[string]any) {
	for key, value := range m {
		if verbatim[key] {
			continue
		}
		dropUnsetIn(value)
		inner, isMap := value.(map[string]any)
		if value == nil || isMap && len(inner) == 0 && meansNothing[key] || value == "" && key == "name" {
			delete(m, key)
		}
	}
}

func dropUnsetIn(value any) {
	switch v := value.(type) {
	case map[string]any:
		dropUnset(v)
	case []any:
		for i := range v {
			dropUnsetIn(v[i])
		}
	}
}
