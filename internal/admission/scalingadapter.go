// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// adapterRules are those about scaling adapters. The schema refuses the same, but an adapter may have been stored under an
// older one.
func adapterRules() []Rule {
	adapters := []string{v1alpha1.KindDynamoGraphDeploymentScalingAdapter}
	return []Rule{
		{
			Name: "adapter-replicas", Kinds: adapters, Level: Refusal, Places: everywhere, Reference: true, check: on(adapterReplicas),
			Says: "`replicas` of a scaling adapter is not negative.",
		},
		{
			Name: "adapter-target", Kinds: adapters, Level: Refusal, Places: everywhere &^ Reconciler, Reference: true, check: on(adapterTarget),
			Says: "A scaling adapter names a graph and a service. One that is stored without says in its status that there is no such graph.",
		},
	}
}

func adapterReplicas(a *v1alpha1.DynamoGraphDeploymentScalingAdapter) field.ErrorList {
	if a.Spec.Replicas >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), a.Spec.Replicas, "must not be negative")}
}

func adapterTarget(a *v1alpha1.DynamoGraphDeploymentScalingAdapter) field.ErrorList {
	at := field.NewPath("spec", "dgdRef")
	var errs field.ErrorList
	if a.Spec.DGDRef.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "name the graph"))
	}
	if a.Spec.DGDRef.ServiceName == "" {
		errs = append(errs, field.Required(at.Child("serviceName"), "name the service of the graph that is scaled"))
	}
	return errs
}
