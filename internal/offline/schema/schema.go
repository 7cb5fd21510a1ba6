// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schema does to an object what the API server does to it by our definitions: it fills in defaults, and checks
// types, limits and rules. It is the API server's own code, so that what passes here passes there.
package schema

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
)

// Definition is what our CustomResourceDefinition says about objects of one kind.
type Definition struct {
	structural *schema.Structural
	types      validation.SchemaValidator
	rules      *cel.Validator
}

// Of returns the definition of a kind. Definitions are compiled once, and only if somebody asks for them.
func Of(kind string) (*Definition, error) {
	all, err := compilers()
	if err != nil {
		return nil, err
	}
	compile, ok := all[kind]
	if !ok {
		return nil, fmt.Errorf("there is no definition of kind %q", kind)
	}
	return compile()
}

// compilers hold what compiles each definition on first use. Nothing changes them afterwards.
var compilers = sync.OnceValues(func() (map[string]func() (*Definition, error), error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	all := map[string]func() (*Definition, error){}
	for _, d := range definitions {
		all[d.Spec.Names.Kind] = sync.OnceValues(func() (*Definition, error) { return compile(d) })
	}
	return all, nil
})

func compile(d *apiextensionsv1.CustomResourceDefinition) (*Definition, error) {
	fail := func(err error) (*Definition, error) { return nil, fmt.Errorf("compile definition %s: %w", d.Name, err) }
	var props apiextensions.JSONSchemaProps
	from := d.Spec.Versions[0].Schema.OpenAPIV3Schema // our definitions have one version each
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(from, &props, nil); err != nil {
		return fail(err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return fail(err)
	}
	types, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return fail(err)
	}
	return &Definition{structural: structural, types: types, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Default fills in what the definition has defaults for, and drops nulls as the API server does.
func (d *Definition) Default(object map[string]any) {
	defaulting.PruneNonNullableNullsWithoutDefaults(object, d.structural)
	defaulting.Default(object, d.structural)
}

// Faults are what the API server finds wrong with an object: by types and limits, and by rules. It evaluates no rules where
// types are wrong.
type Faults struct{ Types, Rules field.ErrorList }

// All are the faults in one list.
func (f Faults) All() field.ErrorList { return slices.Concat(f.Types, f.Rules) }

// Create judges a new object. Defaults have to be filled in.
func (d *Definition) Create(ctx context.Context, object map[string]any) Faults {
	errs := validation.ValidateCustomResource(nil, object, d.types)
	errs = append(errs, objectmeta.Validate(ctx, nil, object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	if blocked(errs) || d.rules == nil {
		return Faults{Types: errs}
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget)
	return Faults{Types: errs, Rules: broken}
}

// Update judges a changed object. What was wrong before and has not been touched is let through. Defaults have to be filled
// in on both.
func (d *Definition) Update(ctx context.Context, object, old map[string]any) Faults {
	both := common.NewCorrelatedObject(object, old, &model.Structural{Structural: d.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, object, old, d.types, validation.WithRatcheting(both))
	errs = append(errs, objectmeta.Validate(ctx, nil, object, d.structural, false)...)
	if before := listtype.ValidateListSetsAndMaps(nil, d.structural, old); len(before) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, object)...)
	}
	if blocked(errs) || d.rules == nil {
		return Faults{Types: errs}
	}
	broken, _ := d.rules.Validate(ctx, nil, d.structural, object, old, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(both))
	return Faults{Types: errs, Rules: broken}
}

// blocked tells that rules could meet values of types that they do not expect. The API server does not evaluate them then.
func blocked(errs field.ErrorList) bool {
	blocking := []field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}
	return slices.ContainsFunc(errs, func(err *field.Error) bool { return slices.Contains(blocking, err.Type) })
}
