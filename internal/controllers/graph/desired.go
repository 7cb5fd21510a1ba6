// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package graph reconciles DynamoGraphDeployments: spec to components and what they share, components' status to the
// graph's.
package graph

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Desired is pure: equal graphs, circumstances and settings give equal plans. Missing are the claims that the graph
// expects to find and that are not there.
func Desired(g *v1alpha1.DynamoGraphDeployment, missing []string, s input.Settings, scheme *runtime.Scheme) controllers.Plan {
	problems := append(admission.Graph(g), missingClaims(g, missing)...)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	stages, problems := render.Graph(g, s)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, g, stages)
}

func missingClaims(g *v1alpha1.DynamoGraphDeployment, missing []string) field.ErrorList {
	var problems field.ErrorList
	for i, claim := range g.Spec.PVCs {
		if claim.Name != nil && slices.Contains(missing, *claim.Name) {
			problems = append(problems, field.Invalid(field.NewPath("spec", "pvcs").Index(i).Child("name"), *claim.Name,
				"there is no such claim: create it, or set create: true with storageClass, size and volumeAccessMode"))
		}
	}
	return problems
}
