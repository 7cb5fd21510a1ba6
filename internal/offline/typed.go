// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/offline/schema"
	"github.com/dynamo-operator/dynamo-operator/internal/strict"
)

// reading is what was made of a document.
type reading struct {
	// object is nil if a value is of a type that it cannot have.
	object client.Object
	// misfits are fields that do not exist, and values of wrong types.
	misfits field.ErrorList
	// faults are what the definition finds wrong.
	faults schema.Faults
}

// kinds are those that can be read, with what reads them.
func kinds() map[string]func(map[string]any) reading {
	return map[string]func(map[string]any) reading{
		v1alpha1.KindDynamoGraphDeployment:               readingOf[v1alpha1.DynamoGraphDeployment],
		v1alpha1.KindDynamoComponentDeployment:           readingOf[v1alpha1.DynamoComponentDeployment],
		v1alpha1.KindDynamoModel:                         readingOf[v1alpha1.DynamoModel],
		v1alpha1.KindDynamoGraphDeploymentRequest:        readingOf[v1alpha1.DynamoGraphDeploymentRequest],
		v1alpha1.KindDynamoGraphDeploymentScalingAdapter: readingOf[v1alpha1.DynamoGraphDeploymentScalingAdapter],
		v1alpha1.KindDynamoCheckpoint:                    readingOf[v1alpha1.DynamoCheckpoint],
	}
}

// typed reads a document as the kind that it says it is.
func typed(kind string, members map[string]any) reading {
	read, ok := kinds()[kind]
	if !ok {
		supported := []string{
			v1alpha1.KindDynamoGraphDeployment, v1alpha1.KindDynamoComponentDeployment, v1alpha1.KindDynamoModel,
			v1alpha1.KindDynamoGraphDeploymentRequest, v1alpha1.KindDynamoGraphDeploymentScalingAdapter, v1alpha1.KindDynamoCheckpoint,
		}
		return reading{misfits: field.ErrorList{field.NotSupported(field.NewPath("kind"), kind, supported)}}
	}
	if version, _ := members["apiVersion"].(string); version != v1alpha1.GroupVersion.String() {
		at := field.NewPath("apiVersion")
		return reading{misfits: field.ErrorList{field.NotSupported(at, version, []string{v1alpha1.GroupVersion.String()})}}
	}
	r := read(members)
	r.faults = by(kind, members, r.misfits)
	return r
}

// readingOf decodes a document as the API server does, and says of everything in it that does not fit. A field that does not
// exist is no reason not to look at the others.
func readingOf[T any, P interface {
	*T
	client.Object
}](members map[string]any) reading {
	misfits := strict.Decode(members, new(T))
	if slices.ContainsFunc(misfits, func(err *field.Error) bool { return err.Type != field.ErrorTypeForbidden }) {
		return reading{misfits: misfits}
	}
	completed := P(new(T))
	if err := complete(members, completed); err != nil {
		return reading{misfits: append(misfits, field.InternalError(nil, err))}
	}
	return reading{object: completed, misfits: misfits}
}

// complete decodes a document with the defaults of its definition.
func complete(members map[string]any, into client.Object) error {
	kind, _ := members["kind"].(string)
	definition, err := schema.Of(kind)
	if err != nil {
		return err
	}
	filled := runtime.DeepCopyJSON(members)
	definition.Default(filled)
	text, err := json.Marshal(filled)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	if g, ok := into.(*v1alpha1.DynamoGraphDeployment); ok {
		keepNull(g, members)
	}
	return nil
}

// keepNull puts back the services of which nothing is said. The API server drops them in silence, which is hardly what
// somebody had in mind who wrote their names.
func keepNull(g *v1alpha1.DynamoGraphDeployment, members map[string]any) {
	spec, _ := members["spec"].(map[string]any)
	services, _ := spec["services"].(map[string]any)
	for name, service := range services {
		if service != nil {
			continue
		}
		if g.Spec.Services == nil {
			g.Spec.Services = map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{}
		}
		g.Spec.Services[name] = nil
	}
}

// by judges a document by its definition, with the defaults of that. Fields of which something has been said are left out.
func by(kind string, members map[string]any, said field.ErrorList) schema.Faults {
	definition, err := schema.Of(kind)
	if err != nil {
		return schema.Faults{Types: field.ErrorList{field.InternalError(nil, err)}}
	}
	filled := runtime.DeepCopyJSON(members)
	definition.Default(filled)
	faults := definition.Create(context.Background(), filled)
	for _, list := range []field.ErrorList{faults.Types, faults.Rules} {
		for _, err := range list {
			err.Field = keyed(placed(err), members)
		}
	}
	return schema.Faults{Types: united(said, faults.Types)[len(said):], Rules: faults.Rules}
}

// placed is the path of a field. The validator of number formats names it at the end of its text alone.
func placed(err *field.Error) string {
	if _, path, ok := strings.Cut(err.Detail, " in "); ok && strings.HasPrefix(err.Field, "<nil>") {
		return path
	}
	return err.Field
}

// keyed is a path in the form that our own rules use: services are keys of a map. Definitions put all names behind dots.
func keyed(path string, members map[string]any) string {
	const prefix = "spec.services."
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return path
	}
	spec, _ := members["spec"].(map[string]any)
	services, _ := spec["services"].(map[string]any)
	longest := ""
	for name := range services { // one name may be the beginning of another
		if (rest == name || strings.HasPrefix(rest, name+".")) && len(name) > len(longest) {
			longest = name
		}
	}
	if longest == "" {
		return path
	}
	return strings.TrimSuffix(prefix, ".") + "[" + longest + "]" + strings.TrimPrefix(rest, longest)
}

// united adds problems with fields of which nothing has been said yet.
func united(errs, more field.ErrorList) field.ErrorList {
	said := map[string]bool{}
	for _, err := range errs {
		said[err.Field] = true
	}
	for _, err := range more {
		if !said[err.Field] {
			errs = append(errs, err)
		}
	}
	return errs
}

// around leaves out rules of a definition of whose subject something has been said: they are ours, in the words of the
// definition, and name the field or what is around it.
func around(said, rules field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(slices.Clone(rules), func(rule *field.Error) bool {
		return slices.ContainsFunc(said, func(err *field.Error) bool { return inside(err.Field, rule.Field) || inside(rule.Field, err.Field) })
	})
}

// inside tells whether a field is another one or below it.
func inside(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// byField sorts problems of one document, those of the same field in the order in which they were found.
func byField(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Field(), b.Field()) })
}
