// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/offline"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

func BenchmarkRenderThreeComponents(b *testing.B) {
	benchmark(b, builders.TwoComponents("team-a", "chat").
		Service("Prefill", v1alpha1.ComponentTypePrefill, builders.Args("python3 -m dynamo.vllm --is-prefill-worker")))
}

func BenchmarkRenderTwentyFiveServices(b *testing.B) {
	graph := builders.Graph("team-a", "large").Service("Frontend", v1alpha1.ComponentTypeFrontend)
	for i := range 24 {
		graph.Service(fmt.Sprintf("Worker%02d", i), v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.vllm --model acme/tiny-1b"))
	}
	benchmark(b, graph)
}

// benchmark renders what the operator renders for a graph that it has not seen: the graph, which includes a rehearsal of its
// components, and then each component.
func benchmark(b *testing.B, builder *builders.GraphBuilder) {
	graph := builder.Env("LOG_LEVEL", "info").Obj()
	settings := offline.DefaultOperator().Settings
	b.ReportAllocs()
	for b.Loop() {
		stages, errs := render.Graph(graph, input.Graph{Settings: settings})
		if len(errs) > 0 {
			b.Fatal(errs)
		}
		for _, stage := range stages {
			for _, object := range stage {
				if c, ok := object.Object.(*v1alpha1.DynamoComponentDeployment); ok {
					if _, errs := render.Component(input.FromDeployment(c, settings, nil)); len(errs) > 0 {
						b.Fatal(errs)
					}
				}
			}
		}
	}
}
