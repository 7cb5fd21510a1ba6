// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission holds the rules that a spec has to follow, as pure functions. Whoever has to judge a spec calls
// them: the controllers before they make anything, later the webhook and the command line.
package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Graph returns every problem of a graph that can be seen without looking at the cluster.
func Graph(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	services := field.NewPath("spec", "services")
	if len(g.Spec.Services) == 0 {
		return field.ErrorList{field.Required(services, "name at least one service")}
	}
	errs := graphNames(g, services)
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		if service := g.Spec.Services[name]; service != nil {
			errs = append(errs, shared(service, services.Key(name))...)
		}
	}
	errs = append(errs, claims(g.Spec.PVCs)...)
	errs = append(errs, restart(g)...)
	return append(errs, unsupportedGraph(g)...)
}

// Component returns every problem of a component that can be seen without looking at the cluster.
func Component(c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	path := field.NewPath("spec")
	errs := shared(&c.Spec.DynamoComponentDeploymentSharedSpec, path)
	for _, problem := range validation.IsDNS1123Label(c.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "a component's name is that of its Service: "+problem))
	}
	if c.Spec.ComponentType == v1alpha1.ComponentTypeEPP && c.GetParentGraphDeploymentName() == "" {
		errs = append(errs, field.Forbidden(path.Child("componentType"), "an endpoint picker picks for the frontends of a graph and cannot stand alone"))
	}
	return append(errs, unsupportedShared(&c.Spec.DynamoComponentDeploymentSharedSpec, path)...)
}

// graphNames checks what is derived from the names of the graph and its services before the API server has to refuse
// a child with a message that names neither.
func graphNames(g *v1alpha1.DynamoGraphDeployment, services *field.Path) field.ErrorList {
	var errs field.ErrorList
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		at := services.Key(name)
		for _, problem := range validation.IsValidLabelValue(name) {
			errs = append(errs, field.Invalid(at, name, "is used as a label value: "+problem))
		}
		for _, child := range children(g, name) {
			for _, problem := range validation.IsDNS1123Label(child) {
				errs = append(errs, field.Invalid(at, child, "graph and service name together name a Service: "+problem))
			}
			if other, taken := owner[child]; taken {
				errs = append(errs, field.Invalid(at, name, fmt.Sprintf("it and service %q would both have a Service called %q", other, child)))
			}
			owner[child] = name
		}
	}
	dynamoNamespace := v1alpha1.ComputeDynamoNamespace(false, g.Namespace, g.Name)
	for _, problem := range validation.IsValidLabelValue(dynamoNamespace) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), dynamoNamespace,
			"namespace and graph name together are used as a label value: "+problem))
	}
	return errs
}

// children are the names of a service's Services, each of which it must have to itself.
func children(g *v1alpha1.DynamoGraphDeployment, service string) []string {
	name := names.Component(g.Name, service)
	if s := g.Spec.Services[service]; s == nil || s.Annotations[names.AnnotationStealingTrafficDebug] != names.True {
		return []string{name}
	}
	return []string{name, names.ProductionService(name), names.DebugWorkload(name)}
}

// claims checks the volume claims of a graph.
func claims(pvcs []v1alpha1.PVC) field.ErrorList {
	var errs field.ErrorList
	for i, c := range pvcs {
		at := field.NewPath("spec", "pvcs").Index(i)
		if c.Name == nil || *c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), "name the claim"))
		}
		if c.Create == nil || !*c.Create {
			continue
		}
		const needed = "needed where create is true"
		if c.StorageClass == "" {
			errs = append(errs, field.Required(at.Child("storageClass"), needed))
		}
		if c.Size.IsZero() {
			errs = append(errs, field.Required(at.Child("size"), needed))
		}
		if c.VolumeAccessMode == "" {
			errs = append(errs, field.Required(at.Child("volumeAccessMode"), needed))
		}
	}
	return errs
}

// restart checks a restart request against the services there are.
func restart(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	r := g.Spec.Restart
	if r == nil {
		return nil
	}
	at := field.NewPath("spec", "restart")
	var errs field.ErrorList
	if r.ID == "" {
		errs = append(errs, field.Required(at.Child("id"), "give the restart a token; a new token starts a new restart"))
	}
	if r.Strategy == nil || len(r.Strategy.Order) == 0 {
		return errs
	}
	order := at.Child("strategy", "order")
	if r.Strategy.Type == v1alpha1.RestartStrategyTypeParallel {
		return append(errs, field.Forbidden(order, "a parallel restart has no order"))
	}
	named := map[string]bool{}
	for i, name := range r.Strategy.Order {
		if _, ok := g.Spec.Services[name]; !ok {
			errs = append(errs, field.NotFound(order.Index(i), name))
		}
		if named[name] {
			errs = append(errs, field.Duplicate(order.Index(i), name))
		}
		named[name] = true
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		if !named[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		errs = append(errs, field.Invalid(order, r.Strategy.Order, "has to name every service, missing: "+strings.Join(missing, ", ")))
	}
	return errs
}
