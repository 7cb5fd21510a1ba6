// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/storage"
)

// RetainsClaims tells whether the claims that a graph makes stay when it goes.
func RetainsClaims(g *v1alpha1.DynamoGraphDeployment) bool {
	return g.Annotations[names.AnnotationRetainClaims] == names.True
}

// claims renders the claims that the graph makes. One that is to stay carries the name of its graph, because nothing else
// will tell then whose data it holds.
func claims(g *v1alpha1.DynamoGraphDeployment) ([]Object, field.ErrorList) {
	var objects []Object
	var errs field.ErrorList
	for i, p := range g.Spec.PVCs {
		if p.Name == nil || p.Create == nil || !*p.Create {
			continue
		}
		errs = append(errs, storage.Unsound(p, field.NewPath("spec", "pvcs").Index(i))...)
		claim := Object{Object: storage.Claim(g.Namespace, p), Belonging: belonging.Once}
		if RetainsClaims(g) {
			claim.Belonging = belonging.Retained
			claim.SetLabels(map[string]string{names.LabelGraph: g.Name})
		}
		objects = append(objects, claim)
	}
	return objects, errs
}
