// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// notYet ends every message of this file. A field that would be ignored in silence is worse than one that is refused.
const notYet = "not supported by this release yet; remove it to deploy"

// unsupportedGraph names the fields of a graph that this release would ignore.
func unsupportedGraph(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		if s := g.Spec.Services[name]; s != nil {
			errs = append(errs, unsupportedShared(s, field.NewPath("spec", "services").Key(name))...)
		}
	}
	return errs
}

// unsupportedShared names the fields of a component that this release would ignore.
func unsupportedShared(s *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, row := range []struct {
		used bool
		at   *field.Path
	}{
		{s.Checkpoint != nil && s.Checkpoint.Enabled, at.Child("checkpoint")},
	} {
		if row.used {
			errs = append(errs, field.Forbidden(row.at, notYet))
		}
	}
	return errs
}
