// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import "sigs.k8s.io/controller-runtime/pkg/client"

// Belonging says how an object belongs to what it was rendered for.
type Belonging int

const (
	// Owned objects have one owner, go with it and are kept as rendered.
	Owned Belonging = iota
	// Shared objects are the same for several owners and go with the last.
	Shared
	// Borrowed objects are Shared unless somebody else has made them; then they are used as they are.
	Borrowed
	// Once objects are created where they are missing and never changed.
	Once
)

// Object is one rendered object.
type Object struct {
	client.Object
	Belonging Belonging
}

// Stages are objects in the order in which they are applied. Inside a stage order does not matter.
type Stages [][]Object

// add appends a stage unless it is empty.
func (s *Stages) add(stage []Object) {
	if len(stage) > 0 {
		*s = append(*s, stage)
	}
}

// as gives objects their belonging.
func as(b Belonging, objects ...client.Object) []Object {
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, Object{Object: o, Belonging: b})
	}
	return out
}
