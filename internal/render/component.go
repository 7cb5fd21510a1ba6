// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package render turns specs into objects: pure functions from what a user wrote to what the operator applies.
// Equal inputs give equal outputs; it is safe to call from tests, the command line and the controllers.
package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
	"github.com/dynamo-operator/dynamo-operator/internal/render/budget"
	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/deployment"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/lws"
)

// Component returns everything one component needs. A refused workload must not keep its network objects from being
// made, so all of them are one stage. A component without a graph has its own access.
func Component(c input.Component) (Stages, field.ErrorList) {
	workloads, pods, errs := workload(c)
	guard, problems := guarded(c, pods)
	errs = append(errs, problems...)
	errs = append(errs, network.Unreachable(c)...)
	planner := c.Graph == "" && c.Is(v1alpha1.ComponentTypePlanner) && c.Settings.ClusterWide
	if planner && c.Settings.PlannerClusterRole == "" {
		errs = append(errs, roleMissing(c.Path, "--planner-cluster-role-name"))
	}
	if len(errs) > 0 {
		return nil, errs
	}
	var stages Stages
	var main []Object
	if c.Graph == "" && c.Discovery() == names.DiscoveryKubernetes {
		accounts, bindings := access.Discovery(c.Namespace, c.Name)
		stages.add(as(belonging.Owned, accounts...))
		main = as(belonging.Owned, bindings...)
	}
	if planner {
		account, binding := access.Account(c.Namespace, names.PlannerAccount, c.Settings.PlannerClusterRole)
		stages.add([]Object{{Object: account, Belonging: belonging.Borrowed}})
		main = append(main, Object{Object: binding, Belonging: belonging.Borrowed})
	}
	if c.Graph == "" && UsesMPI(c) && !access.HasOriginal(c.Namespace, c.Settings) {
		stages.add([]Object{{Object: access.SSHKey(c.Namespace, c.Settings), Belonging: belonging.Borrowed}})
	}
	gangs := slices.DeleteFunc(slices.Clone(workloads), func(o Object) bool { return !isGang(o) })
	stages.add(gangs) // pods whose gang is not there hang
	workloads = slices.DeleteFunc(workloads, isGang)
	stages.add(slices.Concat(main, workloads, guard, called(c, pods), serves(c), published(c)))
	return stages, nil
}

// workload renders what runs the component's pods, and the template of those that serve.
func workload(c input.Component) ([]Object, corev1.PodTemplateSpec, field.ErrorList) {
	if c.Spec.IsMultinode() {
		return groups(c)
	}
	deployments, errs := deployment.Render(c)
	objects := make([]Object, 0, len(deployments))
	for _, d := range deployments {
		objects = append(objects, Object{Object: d})
	}
	return objects, deployments[0].Spec.Template, errs
}

// groups renders a component whose replicas span several nodes.
func groups(c input.Component) ([]Object, corev1.PodTemplateSpec, field.ErrorList) {
	if !c.Settings.Serves.LWS {
		return nil, corev1.PodTemplateSpec{}, field.ErrorList{field.Forbidden(c.Path.Child("multinode"),
			"no multinode orchestrator available: install LeaderWorkerSet or Grove in the cluster, or remove multinode")}
	}
	replicas, errs := lws.Render(c)
	leader, _, _ := lws.Templates(c, 0)
	var objects []Object
	for _, r := range replicas {
		if r.Gang != nil {
			objects = append(objects, Object{Object: r.Gang})
		}
		objects = append(objects, Object{Object: r.Set})
	}
	return objects, leader, errs
}

func isGang(o Object) bool { return o.GetObjectKind().GroupVersionKind() == lws.PodGroupKind }

// UsesMPI tells whether the component's nodes reach each other through ssh.
func UsesMPI(c input.Component) bool {
	framework, _ := engine.Framework(c)
	return c.Spec.IsMultinode() && engine.NeedsSSH(framework)
}

// guarded renders the limit on evictions of a component's pods, if it has one.
func guarded(c input.Component, pods corev1.PodTemplateSpec) ([]Object, field.ErrorList) {
	limit, errs := budget.Render(c, network.Selector(c, pods.Labels))
	if limit == nil {
		return nil, errs
	}
	return []Object{{Object: limit}}, errs
}

// called renders the Services by which a component is called.
func called(c input.Component, pods corev1.PodTemplateSpec) []Object {
	var objects []Object
	for _, s := range network.Services(c, pods) {
		objects = append(objects, Object{Object: s})
	}
	return objects
}

// serves renders the Service over all pods that serve the component's model, if it names one.
func serves(c input.Component) []Object {
	model := c.ModelName()
	if model == "" {
		return nil
	}
	return []Object{{Object: network.ModelService(c.Namespace, model), Belonging: belonging.Shared}}
}

// published renders how a component is reached from outside the cluster.
func published(c input.Component) []Object {
	var objects []Object
	if ingress := network.Ingress(c); ingress != nil {
		objects = append(objects, Object{Object: ingress})
	}
	if virtual := network.VirtualService(c); virtual != nil {
		objects = append(objects, Object{Object: virtual})
	}
	return objects
}
