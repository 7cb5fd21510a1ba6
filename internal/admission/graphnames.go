// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// nameRules are about what is derived from the names of a graph and its services. They speak before the API server has to
// refuse a child with a message that names neither.
func nameRules() []Rule {
	return []Rule{
		{
			Name: "service-name-labels", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, check: on(serviceLabels),
			Says: "The name of a service is a valid label value.",
		},
		{
			Name: "service-name-fits", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, check: on(serviceFits),
			Says: "The names of a graph and of each of its services together are the name of a Service.",
		},
		{
			Name: "service-names-distinct", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, check: on(servicesDistinct),
			Says: "No two services of a graph would have a Service of the same name. Names that differ only in case do.",
		},
		{
			Name: "graph-name-fits", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, check: on(graphFits),
			Says: "Namespace and name of a graph together are a valid label value.",
		},
	}
}

func serviceLabels(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(g) {
		for _, problem := range validation.IsValidLabelValue(name) {
			errs = append(errs, field.Invalid(servicesPath().Key(name), name, "is used as a label value: "+problem))
		}
	}
	return errs
}

func serviceFits(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(g) {
		for _, child := range children(g, name) {
			for _, problem := range validation.IsDNS1123Label(child) {
				errs = append(errs, field.Invalid(servicesPath().Key(name), child, "graph and service name together name a Service: "+problem))
			}
		}
	}
	return errs
}

func servicesDistinct(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	owner := map[string]string{}
	for _, name := range sorted(g) {
		for _, child := range children(g, name) {
			if other, taken := owner[child]; taken {
				errs = append(errs, field.Invalid(servicesPath().Key(name), name,
					fmt.Sprintf("it and service %q would both have a Service called %q", other, child)))
			}
			owner[child] = name
		}
	}
	return errs
}

// nameOf is the name of an object, or one of the length that the API server will make for it.
func nameOf(obj metav1.Object) string {
	if name, prefix := obj.GetName(), obj.GetGenerateName(); name != "" || prefix == "" {
		return name
	}
	const generated = "xxxxx"
	return obj.GetGenerateName() + generated
}

// children are the names of a service's Services, each of which it must have to itself.
func children(g *v1alpha1.DynamoGraphDeployment, service string) []string {
	return servicesOf(names.Component(nameOf(g), service), g.Spec.Services[service])
}

// servicesOf are the names of the Services of a component.
func servicesOf(name string, spec *v1alpha1.DynamoComponentDeploymentSharedSpec) []string {
	if spec == nil || spec.Annotations[names.AnnotationStealingTrafficDebug] != names.True {
		return []string{name}
	}
	return []string{name, names.ProductionService(name), names.DebugWorkload(name)}
}

func graphFits(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	dynamoNamespace := v1alpha1.ComputeDynamoNamespace(false, g.Namespace, nameOf(g))
	for _, problem := range validation.IsValidLabelValue(dynamoNamespace) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), dynamoNamespace,
			"namespace and graph name together are used as a label value: "+problem))
	}
	return errs
}
