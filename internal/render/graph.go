// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Graph returns everything a graph owns directly: access for its pods, then one DynamoComponentDeployment per service.
// Every component is rendered to its end as well, so that a graph is made whole or not at all.
func Graph(g *v1alpha1.DynamoGraphDeployment, s input.Settings) (Stages, field.ErrorList) {
	var accounts, rest []client.Object
	var errs field.ErrorList
	if discovery(g, s) == names.DiscoveryKubernetes {
		accounts, rest = access.Discovery(g.Namespace, g.Name)
	}
	for _, service := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		path := field.NewPath("spec", "services").Key(service)
		dcd, problems := ComponentOf(g, service, path)
		if dcd != nil {
			_, more := Component(input.FromDeployment(dcd, s, path))
			problems = append(problems, more...)
			rest = append(rest, dcd)
		}
		errs = append(errs, problems...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	// Accounts come before the components whose pods run under them, or the first ReplicaSet backs off.
	if len(accounts) == 0 {
		return Stages{rest}, nil
	}
	return Stages{accounts, rest}, nil
}

// ComponentOf renders the DynamoComponentDeployment of one service.
func ComponentOf(g *v1alpha1.DynamoGraphDeployment, service string, path *field.Path) (*v1alpha1.DynamoComponentDeployment, field.ErrorList) {
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
	spec.ServiceName = service
	spec.DynamoNamespace = &dynamoNamespace
	spec.Annotations = merged(spec.Annotations, inherited(g))
	if len(g.Spec.Envs) > 0 {
		spec.Envs = graphEnv(g.Spec.Envs, spec.Envs)
	}
	errs := applyDeploymentConfig(service, spec, path)
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

// graphEnv lays a service's variables over those of the graph, by name and sorted by name.
func graphEnv(graph, service []corev1.EnvVar) []corev1.EnvVar {
	byName := map[string]corev1.EnvVar{}
	for _, v := range slices.Concat(graph, service) {
		byName[v.Name] = v
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
}
