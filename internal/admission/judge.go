// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Presence says whether the cluster serves an API.
type Presence int

// What is known about an API.
const (
	PresenceUnknown Presence = iota
	PresenceServed
	PresenceAbsent
)

// Circumstances are what a verdict depends on besides the object.
type Circumstances struct {
	// Restricted is true for an operator that looks after one namespace.
	Restricted bool
	// InferencePools says whether InferencePools can be made. Nothing is refused for the sake of what is not known.
	InferencePools Presence
	// Caller is the user name of the request, empty when it is not known.
	Caller string
	// ReplicaWriters are the exact user names that may change replicas that an adapter has. Nobody else may, and nobody
	// at all if the caller is not known.
	ReplicaWriters []string
}

// Verdict is everything there is to say about a write, at once and in a stable order.
type Verdict struct {
	// Errors refuse the write. Type tells what kind of mistake each is, and Origin has the name of its rule.
	Errors field.ErrorList
	// Warnings name a field each and stop nobody.
	Warnings []string
}

// Finding is one broken rule.
type Finding struct {
	Rule  string
	Level Level
	// Err names the field. Its Origin is the name of the rule.
	Err *field.Error
}

// Text is the finding without its level: the field, and what is the matter with it. A refusal also says what was found.
func (f Finding) Text() string {
	if f.Level == Refusal {
		return f.Err.Error()
	}
	return f.Err.Field + ": " + f.Err.Detail
}

// Judge is the verdict of the webhook on a write of an object of that kind. Old is nil for a new object. What is being
// deleted may be written whatever it says, or its finalizers would hold it for ever.
func Judge(kind string, old, obj runtime.Object, c Circumstances) Verdict {
	if isNil(old) {
		old = nil
	}
	if err := mismatch(kind, old, obj); err != nil {
		return Verdict{Errors: field.ErrorList{field.InternalError(field.NewPath("kind"), err)}}
	}
	if meta, ok := obj.(metav1.Object); ok && meta.GetDeletionTimestamp() != nil {
		return Verdict{}
	}
	var v Verdict
	for _, f := range broken(write{Circumstances: c, old: old, obj: obj}, Webhook) {
		switch f.Level {
		case Refusal:
			v.Errors = append(v.Errors, f.Err)
		case Warning:
			v.Warnings = append(v.Warnings, f.Text())
		}
	}
	if old != nil {
		v.Errors = without(v.Errors, refused(old, c, Webhook))
	}
	return v
}

// Examine returns what there is to say about a new object before it is sent to a cluster, notes included.
func Examine(obj runtime.Object, c Circumstances) []Finding {
	return broken(write{Circumstances: c, obj: obj}, Lint)
}

// refused are the errors of an object by itself.
func refused(obj runtime.Object, c Circumstances, at Place) field.ErrorList {
	var errs field.ErrorList
	for _, f := range broken(write{Circumstances: c, obj: obj}, at) {
		if f.Level == Refusal {
			errs = append(errs, f.Err)
		}
	}
	return errs
}

// broken applies every rule of a place, and sorts what it finds by field.
func broken(w write, at Place) []Finding {
	var found []Finding
	w.parts = parts(w.obj)
	for _, rule := range table() {
		if rule.Places&at == 0 || rule.Transition && w.old == nil {
			continue
		}
		for _, err := range rule.check(w) {
			found = append(found, Finding{Rule: rule.Name, Level: rule.Level, Err: err.WithOrigin(rule.Name)})
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Err.Field, b.Err.Field), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Text(), b.Text()))
	})
	return found
}

// without leaves out errors that are among others. An update that leaves the spec alone is not the one to be blamed for it:
// who pauses a graph, or takes a finalizer off it, may do so in any case.
func without(errs, others field.ErrorList) field.ErrorList {
	said := map[string]bool{}
	for _, err := range others {
		said[err.Error()] = true
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return said[err.Error()] })
}

// mismatch tells what keeps a write from being judged at all.
func mismatch(kind string, old, obj runtime.Object) error {
	if is := kindOf(obj); is == "" || is != kind {
		return fmt.Errorf("a %T was given as %q", obj, kind)
	}
	if old != nil && kindOf(old) != kind {
		return fmt.Errorf("a %T was given as what a %s was before", old, kind)
	}
	return nil
}

// isNil also recognises a pointer to nothing.
func isNil(obj runtime.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// kindOf is the kind of an object by its type, which is there even where nobody has filled in the member. It is empty for
// what is none of ours.
func kindOf(obj runtime.Object) string {
	if isNil(obj) {
		return ""
	}
	switch obj.(type) {
	case *v1alpha1.DynamoGraphDeployment:
		return v1alpha1.KindDynamoGraphDeployment
	case *v1alpha1.DynamoComponentDeployment:
		return v1alpha1.KindDynamoComponentDeployment
	case *v1alpha1.DynamoModel:
		return v1alpha1.KindDynamoModel
	case *v1alpha1.DynamoGraphDeploymentRequest:
		return v1alpha1.KindDynamoGraphDeploymentRequest
	case *v1alpha1.DynamoGraphDeploymentScalingAdapter:
		return v1alpha1.KindDynamoGraphDeploymentScalingAdapter
	case *v1alpha1.DynamoCheckpoint:
		return v1alpha1.KindDynamoCheckpoint
	}
	return ""
}
