// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/pod"
)

// Graph returns everything a graph owns directly: accounts, then their bindings, claims, what an endpoint picker needs,
// scaling adapters and its workloads: one DynamoComponentDeployment per service, or one PodCliqueSet with how its cliques are reached.
// Every component is rendered to its end, so that a graph is made whole or not at all.
func Graph(g *v1alpha1.DynamoGraphDeployment, in input.Graph) (Stages, field.ErrorList) {
	accounts, rest, errs := graphAccess(g, in)
	volumes, problems := claims(g)
	rest, errs = append(rest, volumes...), append(errs, problems...)
	picker, problems := endpointPicker(g, in)
	errs = append(errs, problems...)
	rest = append(rest, picker...)
	rest = append(rest, adapters(g)...)
	if GraphUsesMPI(g, in) && !access.HasOriginal(g.Namespace, in.Settings) {
		accounts = append(accounts, Object{Object: access.SSHKey(g.Namespace, in.Settings), Belonging: belonging.Borrowed})
	}
	workloads, problems := graphWorkloads(g, in)
	errs = append(errs, problems...)
	if len(errs) > 0 {
		return nil, errs
	}
	var stages Stages
	// Accounts and keys come before the pods that need them, or those back off.
	stages.add(accounts)
	stages.add(append(rest, workloads...))
	return stages, nil
}

func graphWorkloads(g *v1alpha1.DynamoGraphDeployment, in input.Graph) ([]Object, field.ErrorList) {
	components, dcds, errs := services(g, in)
	if in.OnGrove {
		objects, problems := cliqueSet(g, components, in)
		return objects, append(errs, problems...)
	}
	errs = append(errs, taken(components)...)
	var objects []Object
	for i, c := range components {
		_, problems := Component(c)
		errs = append(errs, problems...)
		objects = append(objects, Object{Object: dcds[i]})
	}
	return objects, errs
}

// taken refuses services whose Service has a name that the group of another one needs: LeaderWorkerSet calls the Service by which
// the nodes of a group find each other like the group, which is numbered, and takes whatever Service has that name for it.
func taken(components []input.Component) field.ErrorList {
	var errs field.ErrorList
	for _, group := range components {
		for _, other := range components {
			number, ok := strings.CutPrefix(other.Name, group.Name+"-")
			if _, err := strconv.ParseUint(number, 10, 31); !group.Spec.IsMultinode() || !ok || err != nil {
				continue
			}
			errs = append(errs, field.Invalid(other.Path, other.Name, fmt.Sprintf(
				"replicas of %s, which span several nodes, have Services called %s-0, %s-1 and so on: give one of the two another name",
				group.Path, group.Name, group.Name)))
		}
	}
	return errs
}

// services are the services of a graph as components, in the order of their names. Those that cannot be viewed so are
// left out and told of.
func services(g *v1alpha1.DynamoGraphDeployment, in input.Graph) ([]input.Component, []*v1alpha1.DynamoComponentDeployment, field.ErrorList) {
	var components []input.Component
	var dcds []*v1alpha1.DynamoComponentDeployment
	var errs field.ErrorList
	for _, service := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		path := field.NewPath("spec", "services").Key(service)
		dcd, problems := ComponentOf(g, service, in, path)
		errs = append(errs, problems...)
		if dcd == nil {
			continue
		}
		c := input.FromDeployment(dcd, in.Settings, path)
		c.OnGrove, c.World = in.OnGrove, in.Worlds[service]
		components, dcds = append(components, c), append(dcds, dcd)
	}
	return components, dcds, errs
}

// GraphUsesMPI tells whether some service of the graph reaches its nodes through ssh.
func GraphUsesMPI(g *v1alpha1.DynamoGraphDeployment, in input.Graph) bool {
	if !g.HasAnyMultinodeService() {
		return false
	}
	components, _, _ := services(g, in)
	return slices.ContainsFunc(components, UsesMPI)
}

// graphAccess renders the accounts that pods of the graph need, and what binds them to their rights.
func graphAccess(g *v1alpha1.DynamoGraphDeployment, in input.Graph) (accounts, bindings []Object, errs field.ErrorList) {
	s := in.Settings
	if discoversByAPI(g, in) {
		first, then := access.Discovery(g.Namespace, g.Name)
		accounts, bindings = as(belonging.Owned, first...), as(belonging.Owned, then...)
	}
	if !s.ClusterWide {
		return accounts, bindings, nil // whoever installed a restricted operator has made them
	}
	for _, a := range []struct{ componentType, account, role, flag string }{
		{v1alpha1.ComponentTypePlanner, names.PlannerAccount, s.PlannerClusterRole, "--planner-cluster-role-name"},
		{v1alpha1.ComponentTypeEPP, names.EPPAccount, s.EPPClusterRole, "--epp-cluster-role-name"},
	} {
		service := firstOfType(g, a.componentType)
		if service == "" {
			continue
		}
		if a.role == "" {
			errs = append(errs, roleMissing(field.NewPath("spec", "services").Key(service), a.flag))
			continue
		}
		account, binding := access.Account(g.Namespace, a.account, a.role)
		accounts = append(accounts, Object{Object: account, Belonging: belonging.Borrowed})
		bindings = append(bindings, Object{Object: binding, Belonging: belonging.Borrowed})
	}
	return accounts, bindings, errs
}

// roleMissing refuses a component whose rights the operator was not told of: its pods would wait for an account for ever.
func roleMissing(component *field.Path, flag string) *field.Error {
	return field.Forbidden(component.Child("componentType"), "the operator was started without "+flag+" and cannot give this component its rights")
}

// discoversByAPI tells whether the graph's pods find each other through the API, all of them or those of one service that
// says so for itself.
func discoversByAPI(g *v1alpha1.DynamoGraphDeployment, in input.Graph) bool {
	if discovery(g, in.Settings) == names.DiscoveryKubernetes {
		return true
	}
	components, _, _ := services(g, in)
	return slices.ContainsFunc(components, func(c input.Component) bool { return c.Discovery() == names.DiscoveryKubernetes })
}

// firstOfType returns the first service of a type in the order of names, empty for none.
func firstOfType(g *v1alpha1.DynamoGraphDeployment, componentType string) string {
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		if s := g.Spec.Services[name]; s != nil && s.ComponentType == componentType {
			return name
		}
	}
	return ""
}

// endpointPicker renders the configuration and the pool of the graph's endpoint picker.
func endpointPicker(g *v1alpha1.DynamoGraphDeployment, in input.Graph) ([]Object, field.ErrorList) {
	name, spec, ok := g.GetEPPService()
	if !ok {
		return nil, nil
	}
	p := network.Picker{Namespace: g.Namespace, Graph: g.Name, Service: name, Spec: spec, Production: production(g, in)}
	if errs := otherPickers(g, name); len(errs) > 0 {
		return nil, errs
	}
	config, err := network.PickerConfig(p)
	if err != nil {
		at := field.NewPath("spec", "services").Key(name).Child("eppConfig", "config")
		return nil, field.ErrorList{field.Invalid(at, string(spec.EPPConfig.Config.Raw), err.Error())}
	}
	objects := as(belonging.Owned, network.Pool(p))
	if config != nil {
		objects = append(objects, Object{Object: config})
	}
	return objects, nil
}

// otherPickers refuses pickers with a configuration of their own: a graph has one ConfigMap for it, which is that of the first.
func otherPickers(g *v1alpha1.DynamoGraphDeployment, first string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		spec := g.Spec.Services[name]
		if name == first || spec == nil || spec.ComponentType != v1alpha1.ComponentTypeEPP || spec.EPPConfig == nil || spec.EPPConfig.Config == nil {
			continue
		}
		if of := g.Spec.Services[first].EPPConfig; of == nil || !equality.Semantic.DeepEqual(of.Config, spec.EPPConfig.Config) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "services").Key(name).Child("eppConfig", "config"),
				fmt.Sprintf("the ConfigMap of the graph's pickers has the configuration of service %q: "+
					"put this one into a ConfigMap of your own and name it by configMapRef", first)))
		}
	}
	return errs
}

// production is the workload that serves while the graph's frontend is debugged and keeps its traffic, empty otherwise. A
// pool has one selector, so that of several frontends none can be told from what is debugged beside it.
func production(g *v1alpha1.DynamoGraphDeployment, in input.Graph) string {
	var only string
	for service, spec := range g.Spec.Services {
		if spec == nil || spec.ComponentType != v1alpha1.ComponentTypeFrontend {
			continue
		}
		if only != "" {
			return ""
		}
		only = service
	}
	if only == "" {
		return ""
	}
	c := input.Component{Spec: g.Spec.Services[only], OnGrove: in.OnGrove}
	if !network.Debugged(c) || c.Switched(names.AnnotationDebugPodGetsTraffic) {
		return ""
	}
	return names.Component(g.Name, only)
}

// ComponentOf renders the DynamoComponentDeployment of one service.
func ComponentOf(g *v1alpha1.DynamoGraphDeployment, service string, in input.Graph, path *field.Path) (*v1alpha1.DynamoComponentDeployment, field.ErrorList) {
	spec := g.Spec.Services[service].DeepCopy()
	if spec == nil {
		return nil, field.ErrorList{field.Required(path, "describe the service")}
	}
	dynamoNamespace := g.GetDynamoNamespaceForService(spec)
	spec.Labels = merged(spec.Labels, map[string]string{
		names.LabelComponent:       service,
		names.LabelDynamoNamespace: dynamoNamespace,
		names.LabelGraph:           g.Name,
	})
	if n, ok := in.Replicas[service]; ok {
		spec.Replicas = &n
	}
	spec.ServiceName = service
	spec.DynamoNamespace = &dynamoNamespace
	spec.Annotations = merged(spec.Annotations, inherited(g))
	if backend := discovery(g, in.Settings); in.OnGrove && backend != "" {
		spec.Annotations = merged(spec.Annotations, map[string]string{names.AnnotationDiscoveryBackend: backend})
	}
	if token := in.Restarts[service]; token != "" {
		spec.Annotations = merged(spec.Annotations, map[string]string{names.AnnotationRestartAt: token})
	}
	if len(g.Spec.Envs) > 0 {
		spec.Envs = pod.MergeEnv(g.Spec.Envs, spec.Envs)
	}
	switch spec.ComponentType {
	case v1alpha1.ComponentTypePlanner:
		if !in.OnGrove { // there, a user's own account has always been his to choose
			setAccount(spec, names.PlannerAccount)
		}
	case v1alpha1.ComponentTypeFrontend:
		if spec.Ingress == nil {
			spec.Ingress = network.DefaultIngress(g.Name, in.Settings)
		}
	}
	errs := applyDeploymentConfig(service, spec, configPath(g, service, path))
	return &v1alpha1.DynamoComponentDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: names.Component(g.Name, service), Namespace: g.Namespace, Labels: maps.Clone(spec.Labels),
			// The component is rendered here, too, before it exists, and its renderers look for the graph.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "DynamoGraphDeployment", Name: g.Name, UID: g.UID,
			}},
		},
		Spec: v1alpha1.DynamoComponentDeploymentSpec{
			BackendFramework: g.Spec.BackendFramework, DynamoComponentDeploymentSharedSpec: *spec,
		},
	}, errs
}

// setAccount makes a component's pods run under an account, whatever the user named: a planner without its rights does
// nothing.
func setAccount(spec *v1alpha1.DynamoComponentDeploymentSharedSpec, account string) {
	if spec.ExtraPodSpec == nil {
		spec.ExtraPodSpec = &v1alpha1.ExtraPodSpec{}
	}
	if spec.ExtraPodSpec.PodSpec == nil {
		spec.ExtraPodSpec.PodSpec = &corev1.PodSpec{}
	}
	spec.ExtraPodSpec.ServiceAccountName = account
}

// discovery is the graph's discovery back end.
func discovery(g *v1alpha1.DynamoGraphDeployment, s input.Settings) string {
	if own := g.Annotations[names.AnnotationDiscoveryBackend]; own != "" {
		return own
	}
	return s.DiscoveryBackend
}

// inherited are the switches that a component takes from its graph. The graph's value wins.
func inherited(g *v1alpha1.DynamoGraphDeployment) map[string]string {
	from := map[string]string{}
	for _, key := range []string{names.AnnotationEnableMetrics, names.AnnotationDiscoveryBackend} {
		if value, ok := g.Annotations[key]; ok {
			from[key] = value
		}
	}
	return from
}

// merged returns under with over laid on top, nil when both are empty.
func merged(under, over map[string]string) map[string]string {
	if len(under)+len(over) == 0 {
		return nil
	}
	out := maps.Clone(under)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, over)
	return out
}
