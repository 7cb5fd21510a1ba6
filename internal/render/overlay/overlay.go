// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay lays what a user wrote over a default, field by field, with the rules of the wire contract: a value
// that is set replaces, a list that is not empty replaces whole, maps and structs are merged.
package overlay

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// whole are structs that stand for one value.
var whole = map[reflect.Type]bool{
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
	reflect.TypeFor[metav1.Time]():        true,
}

// Onto lays user over base, which is changed. Zero values that are not behind a pointer never replace anything; that
// they cannot be told from "not written" is part of the contract.
func Onto[T any](base, user *T) {
	if user == nil {
		return
	}
	lay(reflect.ValueOf(base).Elem(), reflect.ValueOf(user).Elem())
}

func lay(base, user reflect.Value) {
	switch user.Kind() {
	case reflect.Struct:
		layStruct(base, user)
	case reflect.Pointer:
		layPointer(base, user)
	case reflect.Map:
		layMap(base, user)
	case reflect.Slice:
		if user.Len() > 0 {
			base.Set(user)
		}
	default:
		if !user.IsZero() {
			base.Set(user)
		}
	}
}

func layStruct(base, user reflect.Value) {
	if whole[user.Type()] {
		if !user.IsZero() {
			base.Set(user)
		}
		return
	}
	for i := range user.NumField() {
		lay(base.Field(i), user.Field(i))
	}
}

func layPointer(base, user reflect.Value) {
	if user.IsNil() {
		return
	}
	if base.IsNil() || user.Elem().Kind() != reflect.Struct {
		base.Set(user) // a pointer tells "0" from "not written", so a grace period of 0 is what the user gets
		return
	}
	lay(base.Elem(), user.Elem())
}

func layMap(base, user reflect.Value) {
	if user.Len() == 0 {
		return
	}
	merged := reflect.MakeMapWithSize(user.Type(), base.Len()+user.Len())
	for _, m := range []reflect.Value{base, user} {
		for it := m.MapRange(); it.Next(); {
			merged.SetMapIndex(it.Key(), it.Value())
		}
	}
	base.Set(merged)
}
