// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
)

// Object is one rendered object.
type Object struct {
	client.Object
	Belonging belonging.Belonging
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
func as(b belonging.Belonging, objects ...client.Object) []Object {
	out := make([]Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, Object{Object: o, Belonging: b})
	}
	return out
}
