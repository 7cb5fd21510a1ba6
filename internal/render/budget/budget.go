// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package budget renders how many replicas of a component may be evicted at once, for users who ask for it.
package budget

import (
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Render returns the component's PodDisruptionBudget, nil where nobody asked for one. Selector finds all its pods.
// Evicting one node of a replica takes the whole replica down, and as many evictions hit at most as many replicas. While a
// replica restarts, its pods that are not ready may always go: otherwise one broken replica would hold up every drain.
func Render(c input.Component, selector map[string]string) (*policyv1.PodDisruptionBudget, field.ErrorList) {
	text, asked := c.Spec.Annotations[names.AnnotationDisruptionBudget]
	if !asked || text == names.False {
		return nil, nil
	}
	may, errs := parse(text, c.Path.Child("annotations").Key(names.AnnotationDisruptionBudget))
	if len(errs) > 0 {
		return nil, errs
	}
	spec := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &may, Selector: &metav1.LabelSelector{MatchLabels: selector}}
	if c.Spec.IsMultinode() {
		may = groups(may, ptr.Deref(c.Spec.Replicas, 1))
		spec.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
	}
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace, Labels: c.ObjectLabels()},
		Spec:       spec,
	}, nil
}

// groups turns a share of the replicas into a number: a share of the pods could be one of each.
func groups(may intstr.IntOrString, replicas int32) intstr.IntOrString {
	n, err := intstr.GetScaledValueFromIntOrPercent(&may, int(replicas), false)
	if err != nil {
		return may
	}
	return intstr.FromInt(max(n, min(1, may.IntValue())))
}

// parse reads how many replicas may be missing: "true" for one, a number, or a percentage.
func parse(text string, at *field.Path) (intstr.IntOrString, field.ErrorList) {
	if text == names.True {
		return intstr.FromInt32(1), nil
	}
	if n, err := strconv.ParseInt(text, 10, 16); err == nil && n >= 0 {
		return intstr.FromInt32(int32(n)), nil
	}
	if len(validation.IsValidPercent(text)) == 0 {
		return intstr.FromString(text), nil
	}
	return intstr.IntOrString{}, field.ErrorList{field.Invalid(at, text,
		`must be how many replicas may be missing at once: "true" for one, a number, or a percentage`)}
}
