// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// part is what services of a graph and components have in common, and where it stands.
type part struct {
	*v1alpha1.DynamoComponentDeploymentSharedSpec

	at *field.Path
	// dynamoNamespace is the one that it joins, whatever it says.
	dynamoNamespace string
}

// parts are the services of a graph, in the order of their names, or the component itself.
func parts(obj runtime.Object) []part {
	switch o := obj.(type) {
	case *v1alpha1.DynamoComponentDeployment:
		return []part{{&o.Spec.DynamoComponentDeploymentSharedSpec, field.NewPath("spec"), joined(o)}}
	case *v1alpha1.DynamoGraphDeployment:
		var all []part
		for _, name := range sorted(o) {
			if s := o.Spec.Services[name]; s != nil {
				all = append(all, part{s, servicesPath().Key(name), o.GetDynamoNamespaceForService(s)})
			}
		}
		return all
	}
	return nil
}

// joined is the Dynamo namespace of a component. Only one without a graph has a say in it.
func joined(c *v1alpha1.DynamoComponentDeployment) string {
	graph := cmp.Or(c.GetParentGraphDeploymentName(), c.Spec.Labels[names.LabelGraph])
	if own := ptr.Deref(c.Spec.DynamoNamespace, ""); graph == "" && own != "" && !c.Spec.GlobalDynamoNamespace {
		return own
	}
	return v1alpha1.ComputeDynamoNamespace(c.Spec.GlobalDynamoNamespace, c.Namespace, cmp.Or(graph, nameOf(c)))
}

// eachPart is a rule about services of graphs and components alike.
func eachPart(judge func(part) field.ErrorList) check {
	return func(w write) field.ErrorList {
		var errs field.ErrorList
		for _, p := range w.parts {
			errs = append(errs, judge(p)...)
		}
		return errs
	}
}

// serviceRules are those about services and components.
func serviceRules() []Rule {
	return []Rule{
		{
			Name: "component-type-labels", Kinds: services(), Level: Refusal, Places: everywhere &^ Schema, check: eachPart(typeLabels),
			Says: "`componentType` and `subComponentType` are valid label values.",
		},
		{
			Name: "replicas-not-negative", Kinds: services(), Level: Refusal, Places: everywhere, Reference: true, check: eachPart(replicasNotNegative),
			Says: "`replicas` is not negative.",
		},
		{
			Name: "ingress-host", Kinds: services(), Level: Refusal, Places: everywhere, Reference: true, check: eachPart(ingressHost),
			Says: "An enabled ingress has a host.",
		},
		{
			Name: "mount-point", Kinds: services(), Level: Refusal, Places: everywhere, Reference: true, check: eachPart(mountPoints),
			Says: "A mounted claim has a mount point, unless it is a compilation cache.",
		},
		{
			Name: "shared-memory-size", Kinds: services(), Level: Refusal, Places: everywhere, Reference: true, check: eachPart(sharedMemoryGiven),
			Says: "`sharedMemory` has a size, unless it is disabled.",
		},
		{
			Name: "shared-memory-not-zero", Kinds: services(), Level: Refusal, Places: everywhere &^ Schema, Reference: true, check: eachPart(sharedMemorySize),
			Says: "The size of `sharedMemory` is more than nothing.",
		},
		{
			Name: "resource-amounts", Kinds: services(), Level: Refusal, Places: everywhere &^ Schema, check: eachPart(amounts),
			Says: "Amounts in `resources` are quantities.",
		},
		{
			Name: "checkpoint-source", Kinds: services(), Level: Refusal, Places: everywhere, Reference: true, check: eachPart(checkpointSource),
			Says: "An enabled checkpoint has a reference, or an identity.",
		},
		{
			Name: "checkpoint-unsupported", Kinds: services(), Level: Refusal, Places: everywhere &^ Schema, check: eachPart(checkpointUnsupported),
			Says: "`checkpoint` is not supported yet. A field that would be ignored in silence is worse than one that is refused.",
		},
	}
}

func typeLabels(p part) field.ErrorList {
	var errs field.ErrorList
	for _, member := range []struct{ name, value string }{{"componentType", p.ComponentType}, {"subComponentType", p.SubComponentType}} {
		for _, problem := range validation.IsValidLabelValue(member.value) {
			errs = append(errs, field.Invalid(p.at.Child(member.name), member.value, "is used as a label value: "+problem))
		}
	}
	return errs
}

func replicasNotNegative(p part) field.ErrorList {
	if ptr.Deref(p.Replicas, 0) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(p.at.Child("replicas"), *p.Replicas, "must not be negative")}
}

func ingressHost(p part) field.ErrorList {
	if p.Ingress == nil || !p.Ingress.Enabled || p.Ingress.Host != "" {
		return nil
	}
	return field.ErrorList{field.Required(p.at.Child("ingress", "host"), "needed where the ingress is enabled")}
}

func mountPoints(p part) field.ErrorList {
	var errs field.ErrorList
	for i, v := range p.VolumeMounts {
		if !v.UseAsCompilationCache && v.MountPoint == "" {
			errs = append(errs, field.Required(p.at.Child("volumeMounts").Index(i).Child("mountPoint"),
				"say where to mount the claim, or set useAsCompilationCache"))
		}
	}
	return errs
}

func sharedMemoryGiven(p part) field.ErrorList {
	if p.SharedMemory == nil || p.SharedMemory.Disabled || p.SharedMemory.Size.Format != "" {
		return nil
	}
	return field.ErrorList{field.Required(p.at.Child("sharedMemory", "size"), "needed unless shared memory is disabled")}
}

func sharedMemorySize(p part) field.ErrorList {
	m := p.SharedMemory
	if m == nil || m.Disabled || m.Size.Format == "" || m.Size.Sign() > 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(p.at.Child("sharedMemory", "size"), m.Size.String(), "must be more than nothing: give a size, or set disabled")}
}

func amounts(p part) field.ErrorList {
	if p.Resources == nil {
		return nil
	}
	at := p.at.Child("resources")
	errs := items(p.Resources.Limits, at.Child("limits"))
	if l := p.Resources.Limits; l != nil && l.GPU != "" {
		errs = append(errs, quantity(at.Child("limits", "gpu"), l.GPU)...)
	}
	// Requested GPUs are left to whoever renders: they count only where there is no limit.
	return append(errs, items(p.Resources.Requests, at.Child("requests"))...)
}

// items checks the amounts of one list. An empty text says nothing, except for a custom resource.
func items(item *v1alpha1.ResourceItem, at *field.Path) field.ErrorList {
	if item == nil {
		return nil
	}
	var errs field.ErrorList
	if item.CPU != "" {
		errs = append(errs, quantity(at.Child("cpu"), item.CPU)...)
	}
	if item.Memory != "" {
		errs = append(errs, quantity(at.Child("memory"), item.Memory)...)
	}
	for _, name := range slices.Sorted(maps.Keys(item.Custom)) {
		errs = append(errs, quantity(at.Child("custom").Key(name), item.Custom[name])...)
	}
	return errs
}

func quantity(at *field.Path, text string) field.ErrorList {
	if _, err := resource.ParseQuantity(text); err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(at, text, `must be a quantity such as "2", "500m" or "16Gi"`)}
}

func checkpointSource(p part) field.ErrorList {
	c := p.Checkpoint
	if c == nil || !c.Enabled || ptr.Deref(c.CheckpointRef, "") != "" || c.Identity != nil {
		return nil
	}
	return field.ErrorList{field.Required(p.at.Child("checkpoint"), "name a checkpoint by checkpointRef, or describe it by identity")}
}

func checkpointUnsupported(p part) field.ErrorList {
	if p.Checkpoint == nil || !p.Checkpoint.Enabled {
		return nil
	}
	return field.ErrorList{field.Forbidden(p.at.Child("checkpoint"), "not supported by this release yet; remove it to deploy")}
}
