// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestVariablesAreSortedButReferencesComeFirst(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]string{
		"A=1 B=2 C=3":              "C=3 A=1 B=2",
		"Z=/m A=$(Z)/x B=2":        "A=$(Z)/x B=2 Z=/m",
		"C=3 B=$(C) A=$(B)":        "A=$(B) B=$(C) C=3",
		"B=$(A) A=$(B)":            "A=$(B) B=$(A)", // a circle: nothing helps, but it ends
		"A=$$(B) B=2":              "A=$$(B) B=2",   // an escape refers to nothing
		"A=$(UNKNOWN) B=2":         "A=$(UNKNOWN) B=2",
		"DYNAMO_PORT=1 DYN_HTTP=2": "DYN_HTTP=2 DYNAMO_PORT=1",
		"C=2 B=1 A=$(C)$(B)":       "A=$(C)$(B) B=1 C=2", // in the order in which they are named
	} {
		got := text(orderEnv(MergeEnv(nil, parse(in))))
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestALaterListReplacesWholeEntries(t *testing.T) {
	t.Parallel()
	under := []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "x"}}}, {Name: "B", Value: "1"}}
	got := MergeEnv(under, []corev1.EnvVar{{Name: "A", Value: "2"}})
	if diff := cmp.Diff([]corev1.EnvVar{{Name: "A", Value: "2"}, {Name: "B", Value: "1"}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func parse(s string) []corev1.EnvVar {
	var env []corev1.EnvVar
	for pair := range strings.FieldsSeq(s) {
		name, value, _ := strings.Cut(pair, "=")
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env
}

func text(env []corev1.EnvVar) string {
	parts := make([]string, 0, len(env))
	for _, v := range env {
		parts = append(parts, v.Name+"="+v.Value)
	}
	return strings.Join(parts, " ")
}
