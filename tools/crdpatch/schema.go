// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// anyKey stands in a path for the values of a map with free keys.
const anyKey = "*"

// node is a JSON object. Schemas are edited in this form, so that members we do not know pass through untouched.
type node map[string]any

// child returns a member that is itself an object. The two share memory, so changes to the child reach the parent.
func (n node) child(key string) (node, bool) {
	value, ok := n[key].(map[string]any)
	return node(value), ok
}

// at follows member names through a schema. Arrays are stepped into without being named.
func (n node) at(path ...string) (node, error) {
	current := n
	for depth, name := range path {
		next, ok := current.step(name)
		if !ok {
			return nil, fmt.Errorf("schema has no %s", strings.Join(path[:depth+1], "."))
		}
		current = next
	}
	return current, nil
}

func (n node) step(name string) (node, bool) {
	object := n
	if items, ok := n.child("items"); ok {
		object = items
	}
	if name == anyKey {
		return object.child("additionalProperties")
	}
	properties, ok := object.child("properties")
	if !ok {
		return nil, false
	}
	return properties.child(name)
}

// dropDescriptionsBelow removes the descriptions of everything inside a schema and keeps that of the schema itself.
func (n node) dropDescriptionsBelow() {
	for _, inner := range n.inner() {
		delete(inner, "description")
		inner.dropDescriptionsBelow()
	}
}

// inner returns the schemas directly inside a schema. Only the places where a schema is expected are followed:
// a member that happens to be called "description" must survive.
func (n node) inner() []node {
	var found []node
	for _, key := range []string{"items", "additionalProperties", "not"} {
		if schema, ok := n.child(key); ok {
			found = append(found, schema)
		}
	}
	if properties, ok := n.child("properties"); ok {
		for name := range properties {
			if schema, ok := properties.child(name); ok {
				found = append(found, schema)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := n[key].([]any)
		for _, item := range list {
			if schema, ok := item.(map[string]any); ok {
				found = append(found, schema)
			}
		}
	}
	return found
}
