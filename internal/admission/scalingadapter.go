// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// ScalingAdapter checks what an adapter says by itself. The schema refuses the same, but an adapter may have been stored
// under an older one, and its number must not make a graph invalid.
func ScalingAdapter(a *v1alpha1.DynamoGraphDeploymentScalingAdapter) field.ErrorList {
	if a.Spec.Replicas < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), a.Spec.Replicas, "must not be negative")}
	}
	return nil
}
