// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// graphRules are those about a graph as a whole.
func graphRules() []Rule {
	return []Rule{
		{
			Name: "services-given", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: on(servicesGiven),
			Says: "A graph has at least one service.",
		},
		{
			Name: "service-described", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, check: on(servicesDescribed),
			Says: "A service is not null. The API server drops one in silence, and the reference fails where it meets one.",
		},
		{
			Name: "claim-name", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: eachClaim(claimName),
			Says: "A volume claim has a name.",
		},
		{
			Name: "claim-complete", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: eachClaim(claimComplete),
			Says: "A claim that is to be created has a storage class, a size and an access mode.",
		},
		{
			Name: "claim-size", Kinds: graphs(), Level: Refusal, Places: everywhere &^ Schema, Reference: true, check: eachClaim(claimSize),
			Says: "A claim that is to be created is not of size zero.",
		},
		{
			Name: "restart-id", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: on(restartID),
			Says: "A restart has an id.",
		},
		{
			Name: "restart-parallel", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: on(restartParallel),
			Says: "A parallel restart has no order.",
		},
		{
			Name: "restart-order", Kinds: graphs(), Level: Refusal, Places: everywhere, Reference: true, check: on(restartOrder),
			Says: "The order of a restart names every service once, and nothing else.",
		},
		{
			Name: "inference-pools-served", Kinds: graphs(), Level: Refusal, Places: Lint | Webhook, Reference: true, check: poolsServed,
			Says: "A graph with an endpoint picker needs a cluster that serves InferencePools.",
		},
		{
			Name: "graph-framework-fixed", Kinds: graphs(), Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(graphFramework), Says: "`backendFramework` of a graph stays as it is, also if it was empty.",
		},
		{
			Name: "service-set-fixed", Kinds: graphs(), Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(serviceSet), Says: "A graph keeps its services: none is added, removed or renamed.",
		},
		{
			Name: "service-nodes-fixed", Kinds: graphs(), Level: Refusal, Transition: true, Places: Schema | Webhook, Reference: true,
			check: onChange(serviceNodes), Says: "A service of one node keeps one, and a service of several keeps several, in whatever number.",
		},
		{
			Name: "replicas-of-adapter", Kinds: graphs(), Level: Refusal, Transition: true, Places: Webhook, Reference: true, check: replicasOfAdapter,
			Says: "Replicas of a service that has, or had until now, a scaling adapter are changed through the adapter. Those who may change " +
				"them are known by their exact user names; the reference trusts every account whose name ends in the right way, and nobody is " +
				"stopped who switches the adapter off in the same update.",
		},
	}
}

func servicesPath() *field.Path { return field.NewPath("spec", "services") }

// sorted are the names of a graph's services.
func sorted(g *v1alpha1.DynamoGraphDeployment) []string {
	return slices.Sorted(maps.Keys(g.Spec.Services))
}

func servicesGiven(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	if len(g.Spec.Services) > 0 {
		return nil
	}
	return field.ErrorList{field.Required(servicesPath(), "name at least one service")}
}

func servicesDescribed(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(g) {
		if g.Spec.Services[name] == nil {
			errs = append(errs, field.Required(servicesPath().Key(name), "describe the service, or remove it"))
		}
	}
	return errs
}

// eachClaim is a rule about every claim of a graph.
func eachClaim(judge func(p v1alpha1.PVC, at *field.Path) field.ErrorList) check {
	return on(func(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
		var errs field.ErrorList
		for i, p := range g.Spec.PVCs {
			errs = append(errs, judge(p, field.NewPath("spec", "pvcs").Index(i))...)
		}
		return errs
	})
}

func claimName(p v1alpha1.PVC, at *field.Path) field.ErrorList {
	if ptr.Deref(p.Name, "") != "" {
		return nil
	}
	return field.ErrorList{field.Required(at.Child("name"), "name the claim")}
}

func claimComplete(p v1alpha1.PVC, at *field.Path) field.ErrorList {
	if !ptr.Deref(p.Create, false) {
		return nil
	}
	var errs field.ErrorList
	const needed = "needed where create is true"
	if p.StorageClass == "" {
		errs = append(errs, field.Required(at.Child("storageClass"), needed))
	}
	if p.Size.Format == "" { // not even zero
		errs = append(errs, field.Required(at.Child("size"), needed))
	}
	if p.VolumeAccessMode == "" {
		errs = append(errs, field.Required(at.Child("volumeAccessMode"), needed))
	}
	return errs
}

func claimSize(p v1alpha1.PVC, at *field.Path) field.ErrorList {
	if !ptr.Deref(p.Create, false) || p.Size.Format == "" || !p.Size.IsZero() {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("size"), p.Size.String(), "say how much the claim has to hold, for example 100Gi")}
}

func restartPath() *field.Path { return field.NewPath("spec", "restart") }

func restartID(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	if g.Spec.Restart == nil || g.Spec.Restart.ID != "" {
		return nil
	}
	return field.ErrorList{field.Required(restartPath().Child("id"), "give the restart a token; a new token starts a new restart")}
}

// ordered is the order that a restart asks for, and whether all restart at once.
func ordered(g *v1alpha1.DynamoGraphDeployment) (order []string, parallel bool) {
	if g.Spec.Restart == nil || g.Spec.Restart.Strategy == nil {
		return nil, false
	}
	s := g.Spec.Restart.Strategy
	return s.Order, s.Type == v1alpha1.RestartStrategyTypeParallel
}

func restartParallel(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	if order, parallel := ordered(g); !parallel || len(order) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(restartPath().Child("strategy", "order"),
		"a parallel restart has no order: remove it, or restart sequentially")}
}

func restartOrder(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	order, parallel := ordered(g)
	if parallel || len(order) == 0 {
		return nil
	}
	at := restartPath().Child("strategy", "order")
	var errs field.ErrorList
	named := map[string]bool{}
	for i, name := range order {
		if _, ok := g.Spec.Services[name]; !ok {
			errs = append(errs, field.NotFound(at.Index(i), name))
		}
		if named[name] {
			errs = append(errs, field.Duplicate(at.Index(i), name))
		}
		named[name] = true
	}
	missing := slices.DeleteFunc(sorted(g), func(name string) bool { return named[name] })
	if len(missing) > 0 {
		errs = append(errs, field.Invalid(at, order, "has to name every service, missing: "+strings.Join(missing, ", ")))
	}
	return errs
}

func poolsServed(w write) field.ErrorList {
	g, ok := w.obj.(*v1alpha1.DynamoGraphDeployment)
	if !ok || w.InferencePools != PresenceAbsent {
		return nil
	}
	name, _, found := g.GetEPPService()
	if before, ok := w.old.(*v1alpha1.DynamoGraphDeployment); ok && found {
		// One that is there already is not to be held up by an API that is being installed again.
		_, _, had := before.GetEPPService()
		found = !had
	}
	if !found {
		return nil
	}
	return field.ErrorList{field.Forbidden(servicesPath().Key(name).Child("componentType"),
		"an endpoint picker needs InferencePools, which this cluster does not serve: install the Gateway API Inference Extension, or remove the service")}
}

func graphFramework(old, g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	return fixed(field.NewPath("spec", "backendFramework"), old.Spec.BackendFramework, g.Spec.BackendFramework, "graph")
}

// fixed refuses another value of a member that stays as it is.
func fixed(at *field.Path, old, is, what string) field.ErrorList {
	if old == is {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("cannot be changed from %q to %q: create another %s", old, is, what))}
}

func serviceSet(old, g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	if len(old.Spec.Services) == 0 {
		return nil // it is being mended
	}
	var changes []string
	for _, change := range []struct {
		what     string
		from, to *v1alpha1.DynamoGraphDeployment
	}{{"added", old, g}, {"removed", g, old}} {
		news := slices.DeleteFunc(sorted(change.to), func(name string) bool { _, ok := change.from.Spec.Services[name]; return ok })
		if len(news) > 0 {
			changes = append(changes, change.what+": "+strings.Join(news, ", "))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return field.ErrorList{field.Forbidden(servicesPath(),
		"services cannot be added, removed or renamed: create another graph, or set replicas to 0 ("+strings.Join(changes, "; ")+")")}
}

// change judges what a service was and is.
type change func(was, is *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) *field.Error

// eachKept judges every service that was there before.
func eachKept(old, g *v1alpha1.DynamoGraphDeployment, judge change) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(g) {
		was, is := old.Spec.Services[name], g.Spec.Services[name]
		if was == nil || is == nil {
			continue
		}
		if err := judge(was, is, servicesPath().Key(name)); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func serviceNodes(old, g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	return eachKept(old, g, func(was, is *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) *field.Error {
		if was.IsMultinode() == is.IsMultinode() {
			return nil
		}
		return field.Forbidden(at.Child("multinode"), "a service cannot be moved between one node and several: create another graph")
	})
}

func replicasOfAdapter(w write) field.ErrorList {
	if w.Caller != "" && slices.Contains(w.ReplicaWriters, w.Caller) {
		return nil
	}
	enabled := func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) bool {
		return s.ScalingAdapter != nil && s.ScalingAdapter.Enabled
	}
	return onChange(func(old, g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
		return eachKept(old, g, func(was, is *v1alpha1.DynamoComponentDeploymentSharedSpec, at *field.Path) *field.Error {
			from, to := ptr.Deref(was.Replicas, 1), ptr.Deref(is.Replicas, 1)
			if from == to || !enabled(was) && !enabled(is) {
				return nil
			}
			return field.Forbidden(at.Child("replicas"), fmt.Sprintf(
				"a scaling adapter has the replicas of this service: scale its DynamoGraphDeploymentScalingAdapter, or leave the number at %d", from))
		})
	})(w)
}
