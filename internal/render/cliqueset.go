// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/grove"
)

// cliqueSet renders a graph on Grove: its PodCliqueSet and how its services are reached.
func cliqueSet(g *v1alpha1.DynamoGraphDeployment, components []input.Component, in input.Graph) ([]Object, field.ErrorList) {
	set, errs := grove.Render(grove.Graph{
		Name: g.Name, Namespace: g.Namespace, Components: components, Queue: Queue(g, in.Settings.Serves),
		Settings: in.Settings, Live: in.Live,
	})
	if len(errs) > 0 {
		return nil, errs
	}
	objects := []Object{{Object: set}}
	templates := grove.Templates(set)
	models := map[string]bool{}
	for _, c := range components {
		serving := names.Clique(c.Service())
		if c.Spec.IsMultinode() {
			serving = names.LeaderClique(c.Service())
		}
		guard, problems := guarded(c, templates[serving])
		errs, objects = append(errs, problems...), append(objects, guard...)
		// A picker's Service is what the graph's InferencePool points to, however workers find each other.
		if c.Discovery() == names.DiscoveryKubernetes || c.IsFrontend() || c.Is(v1alpha1.ComponentTypeEPP) {
			objects = append(objects, called(c, templates[serving])...)
		}
		if model := c.ModelName(); !models[model] {
			models[model] = true
			objects = append(objects, serves(c)...)
		}
		if c.IsFrontend() {
			errs, objects = append(errs, network.Unreachable(c)...), append(objects, published(c)...)
		}
	}
	return objects, errs
}

// Queue is the KAI queue in which the pods of a graph on Grove wait, empty where KAI does not schedule them.
func Queue(g *v1alpha1.DynamoGraphDeployment, serves input.Capabilities) string {
	if !serves.KAI || !grove.UsesKAI(g) {
		return ""
	}
	return cmp.Or(strings.TrimSpace(g.Annotations[names.AnnotationQueue]), names.DefaultQueue)
}
