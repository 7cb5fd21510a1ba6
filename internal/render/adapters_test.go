// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

func scalable(enabled bool) builders.ServiceOption {
	return func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		s.ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: enabled}
	}
}

func adapter(service, name string, replicas int32) *v1alpha1.DynamoGraphDeploymentScalingAdapter {
	return &v1alpha1.DynamoGraphDeploymentScalingAdapter{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			Labels: map[string]string{names.LabelGraph: "chat", names.LabelComponent: service},
		},
		Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: replicas, DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: "chat", ServiceName: service},
		},
	}
}

func TestEveryServiceThatHandsItsReplicasOverHasAnAdapterThatIsMadeOnce(t *testing.T) {
	t.Parallel()
	unset := func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Replicas = nil }
	base := builders.TwoComponents("ns", "chat")
	for name, tc := range map[string]struct {
		graph *builders.GraphBuilder
		want  []*v1alpha1.DynamoGraphDeploymentScalingAdapter
	}{
		"nobody asks for one":   {graph: base.Clone()},
		"one that is off":       {graph: base.Clone().Change("Decode", scalable(false))},
		"replicas as written":   {base.Clone().Change("Decode", scalable(true), builders.Replicas(4)), []*v1alpha1.DynamoGraphDeploymentScalingAdapter{adapter("Decode", "chat-decode", 4)}},
		"none is a number, too": {base.Clone().Change("Decode", scalable(true), builders.Replicas(0)), []*v1alpha1.DynamoGraphDeploymentScalingAdapter{adapter("Decode", "chat-decode", 0)}},
		"unset means one":       {base.Clone().Change("Decode", scalable(true), unset), []*v1alpha1.DynamoGraphDeploymentScalingAdapter{adapter("Decode", "chat-decode", 1)}},
		"in the order of names": {base.Clone().Change("Frontend", scalable(true)).Change("Decode", scalable(true)), []*v1alpha1.DynamoGraphDeploymentScalingAdapter{adapter("Decode", "chat-decode", 1), adapter("Frontend", "chat-frontend", 1)}},
	} {
		for path, in := range map[string]input.Graph{"components": {}, "Grove": {OnGrove: true, Settings: input.Settings{Serves: input.Capabilities{Grove: true}}}} {
			t.Run(name+" with "+path, func(t *testing.T) {
				t.Parallel()
				stages, problems := Graph(tc.graph.Obj(), in)
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				var got []*v1alpha1.DynamoGraphDeploymentScalingAdapter
				for _, stage := range stages {
					for _, object := range stage {
						if a, ok := object.Object.(*v1alpha1.DynamoGraphDeploymentScalingAdapter); ok {
							got = append(got, a)
							if object.Belonging != belonging.Once {
								t.Errorf("adapter %s belongs as %v, and would be written over", a.Name, object.Belonging)
							}
						}
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("adapters (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestTheNumberOfAnAdapterIsRenderedWhateverTheGraphSays(t *testing.T) {
	t.Parallel()
	unset := func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) { s.Replicas = nil }
	for name, change := range map[string]builders.ServiceOption{"nothing": unset, "another number": builders.Replicas(1)} {
		g := builders.TwoComponents("ns", "chat").Change("Frontend", builders.Replicas(2)).Change("Decode", change).Obj()
		in := input.Graph{Replicas: map[string]int32{"Decode": 3}}
		for service, want := range map[string]int32{"Decode": 3, "Frontend": 2} {
			c, problems := ComponentOf(g, service, in, field.NewPath("spec"))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if c.Spec.Replicas == nil || *c.Spec.Replicas != want {
				t.Errorf("a graph that says %s: service %s is rendered with %v replicas, want %d", name, service, c.Spec.Replicas, want)
			}
		}
	}
}
