// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"reflect"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longest is how long a text may be that others may have, too. What is longer was made for one object.
const longest = 128

// shared returns the one text that stands for all that are equal to it.
func shared(text string) string { return unique.Make(text).Value() }

// shareTexts lets equal texts in an object share their memory, but for its own metadata: names of ports and variables, images and
// paths are the same in most graphs, and the name of a graph is in all its children many times.
func shareTexts(obj any) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return
	}
	for i, fields := 0, v.Elem(); i < fields.NumField(); i++ {
		if f := fields.Field(i); f.Type() != reflect.TypeFor[metav1.ObjectMeta]() {
			shareIn(f)
		}
	}
}

func shareIn(v reflect.Value) {
	if !v.CanInterface() {
		return // a field that belongs to its package alone
	}
	switch v.Kind() {
	case reflect.String:
		if v.Len() > 0 && v.Len() <= longest {
			v.SetString(shared(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shareIn(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			shareIn(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() { //nolint:modernize // Fields would also describe each field, for every object that comes
			shareIn(v.Field(i))
		}
	case reflect.Map:
		if texts, ok := reflect.TypeAssert[map[string]string](v); ok {
			for key, value := range texts {
				texts[shared(key)] = shared(value)
			}
		}
	}
}
