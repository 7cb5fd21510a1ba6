// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// switches are the annotations by which users steer the operator.
func switches() []string {
	return []string{
		names.AnnotationDiscoveryBackend, names.AnnotationEnableMetrics, names.AnnotationEnableGrove, names.AnnotationQueue,
		names.AnnotationReconcile, names.AnnotationDisruptionBudget, names.AnnotationStrategy, names.AnnotationMaxSurge,
		names.AnnotationMaxUnavailable, names.AnnotationDebugMode, names.AnnotationStealingTrafficDebug,
		names.AnnotationDebugPodGetsTraffic, names.AnnotationNoPullSecretDiscovery, names.AnnotationRetainClaims,
	}
}

// misspelt warns of switches that will not switch anything.
func misspelt(w write) field.ErrorList {
	var errs field.ErrorList
	if obj, ok := w.obj.(metav1.Object); ok {
		errs = append(errs, nearMisses(obj.GetAnnotations(), field.NewPath("metadata", "annotations"))...)
	}
	for _, p := range w.parts {
		errs = append(errs, nearMisses(p.Annotations, p.at.Child("annotations"))...)
	}
	return errs
}

func nearMisses(annotations map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if meant := nearMiss(key); meant != "" {
			errs = append(errs, field.Invalid(at.Key(key), key, fmt.Sprintf("there is no such switch: did you mean %s?", meant)))
		}
	}
	return errs
}

// nearMiss is the switch that a key was probably meant to be, empty for a key that is one or is like none. It takes two
// slips of the finger, or another case: with more, something else may be meant.
func nearMiss(key string) string {
	const slips = 2
	if !strings.HasPrefix(strings.ToLower(key), names.SwitchPrefix) || slices.Contains(switches(), key) {
		return ""
	}
	for _, known := range switches() {
		tooLong := max(len(key), len(known)) > min(len(key), len(known))+slips
		if strings.EqualFold(key, known) || !tooLong && distance(key, known) <= slips {
			return known
		}
	}
	return ""
}

// distance counts the characters that have to be added, removed or replaced to make one text of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
