// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission holds the rules that an object has to follow, as one table of pure functions. Whoever has to judge an
// object calls them: the webhook before it is stored, the controllers before they make anything of it, and the command
// line before it is sent at all.
package admission

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Level says what follows from a broken rule.
type Level string

// The levels. Only a refusal stops anybody. A note is worth knowing before an object is written, and is not repeated with
// every write of it.
const (
	Refusal Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Place is where a rule is enforced. Places can be added up.
type Place uint8

// The places, in the order in which an object meets them.
const (
	Lint Place = 1 << iota
	Schema
	Webhook
	Reconciler
)

// everywhere is where a rule of the schema is enforced: also by whoever cannot rely on the schema.
const everywhere = Lint | Schema | Webhook | Reconciler

// Rule is one row of the table.
type Rule struct {
	// Name never changes: metrics, lint output and bug reports use it.
	Name string
	// Says is one sentence for the documentation.
	Says  string
	Kinds []string
	Level Level
	// Transition tells that the rule compares an update with what it changes.
	Transition bool
	Places     Place
	// Reference tells that the reference says the same, by its webhook or its schema.
	Reference bool

	check check
}

// check returns what is wrong with a write.
type check func(w write) field.ErrorList

// write is an object on its way into the cluster. Old is nil where there is none yet.
type write struct {
	Circumstances

	old, obj runtime.Object
	// parts are those of obj.
	parts []part
}

// on is a rule about objects of one kind.
func on[T runtime.Object](judge func(T) field.ErrorList) check {
	return func(w write) field.ErrorList {
		obj, ok := w.obj.(T)
		if !ok {
			return nil
		}
		return judge(obj)
	}
}

// onChange is a rule about updates of objects of one kind.
func onChange[T runtime.Object](judge func(old, obj T) field.ErrorList) check {
	return func(w write) field.ErrorList {
		old, was := w.old.(T)
		obj, is := w.obj.(T)
		if !was || !is {
			return nil
		}
		return judge(old, obj)
	}
}

// Kinds in the combinations in which rules share them.
func graphs() []string     { return []string{v1alpha1.KindDynamoGraphDeployment} }
func components() []string { return []string{v1alpha1.KindDynamoComponentDeployment} }
func services() []string   { return slices.Concat(graphs(), components()) }

// Rules returns the table in the order of the documentation.
func Rules() []Rule { return slices.Clone(table()) }

// table is made once, because all of it is gone through for every object that is judged.
var table = sync.OnceValue(func() []Rule {
	return slices.Concat(graphRules(), nameRules(), graphWarnings(), serviceRules(), pickerRules(), serviceWarnings(), componentRules(),
		modelRules(), requestRules(), adapterRules(), checkpointRules())
})
