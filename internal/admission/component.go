// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// componentRules are those about components that services of a graph do not have to follow.
func componentRules() []Rule {
	return []Rule{
		{
			Name: "component-name", Kinds: components(), Level: Refusal, Places: everywhere &^ Schema, check: on(componentName),
			Says: "The name of a component is that of its Service.",
		},
		{
			Name: "component-labels", Kinds: components(), Level: Refusal, Places: everywhere &^ Schema, check: on(componentLabels),
			Says: "The Dynamo namespace that a component joins, and its `serviceName`, are valid label values.",
		},
		{
			Name: "picker-in-graph", Kinds: components(), Level: Refusal, Places: everywhere &^ Schema, check: on(pickerInGraph),
			Says: "An endpoint picker belongs to a graph, for whose frontends it picks.",
		},
		{
			Name: "component-framework-fixed", Kinds: components(), Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(componentFramework), Says: "`backendFramework` of a component stays as it is, also if it was empty.",
		},
	}
}

func componentName(c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, child := range servicesOf(nameOf(c), &c.Spec.DynamoComponentDeploymentSharedSpec) {
		for _, problem := range validation.IsDNS1123Label(child) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), child, "a component's name is that of its Services: "+problem))
		}
	}
	return errs
}

func componentLabels(c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsValidLabelValue(c.Spec.ServiceName) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "serviceName"), c.Spec.ServiceName, "is used as a label value: "+problem))
	}
	namespace, at := joined(c), field.NewPath("metadata", "name")
	why := "namespace and name together are used as a label value, unless spec.dynamoNamespace is set: "
	if namespace == ptr.Deref(c.Spec.DynamoNamespace, "") {
		at, why = field.NewPath("spec", "dynamoNamespace"), "is used as a label value: "
	}
	for _, problem := range validation.IsValidLabelValue(namespace) {
		errs = append(errs, field.Invalid(at, namespace, why+problem))
	}
	return errs
}

func pickerInGraph(c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	if c.Spec.ComponentType != v1alpha1.ComponentTypeEPP || c.GetParentGraphDeploymentName() != "" {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "componentType"),
		"an endpoint picker picks for the frontends of a graph and cannot stand alone: make it a service of the graph")}
}

func componentFramework(old, c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	return fixed(field.NewPath("spec", "backendFramework"), old.Spec.BackendFramework, c.Spec.BackendFramework, "component")
}
