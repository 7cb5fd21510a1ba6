// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// typical are the settings of an operator that was told nothing.
var typical = input.Settings{ClusterWide: true, DiscoveryBackend: names.DiscoveryKubernetes}

func large() *v1alpha1.DynamoGraphDeployment {
	graph := builders.Graph("team-a", "large").Service("Frontend", v1alpha1.ComponentTypeFrontend)
	for i := range 24 {
		graph.Service(fmt.Sprintf("Worker%02d", i), v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.vllm --model acme/tiny-1b"))
	}
	return graph.Obj()
}

func BenchmarkGraphOfTwoServices(b *testing.B) {
	benchmarkGraph(b, builders.TwoComponents("team-a", "chat").Obj())
}

func BenchmarkGraphOfTwentyFiveServices(b *testing.B) { benchmarkGraph(b, large()) }

func benchmarkGraph(b *testing.B, g *v1alpha1.DynamoGraphDeployment) {
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Graph(g, input.Graph{Settings: typical}); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkComponent(b *testing.B) {
	stages, errs := Graph(builders.TwoComponents("team-a", "chat").Obj(), input.Graph{Settings: typical})
	if len(errs) > 0 {
		b.Fatal(errs)
	}
	var worker *v1alpha1.DynamoComponentDeployment
	for _, stage := range stages {
		for _, object := range stage {
			if c, ok := object.Object.(*v1alpha1.DynamoComponentDeployment); ok && c.Spec.ComponentType == v1alpha1.ComponentTypeWorker {
				worker = c
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, errs := Component(input.FromDeployment(worker, typical, nil)); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}
