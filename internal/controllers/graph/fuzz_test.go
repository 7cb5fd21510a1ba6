// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// FuzzPass feeds a pass with graphs and components that no schema has looked at: it must not panic, must say the same
// twice, and must not make anything of a graph that it finds fault with.
func FuzzPass(f *testing.F) {
	example, err := os.ReadFile("../../../examples/quickstart/graph.yaml")
	if err != nil {
		f.Fatal(err)
	}
	seed, err := yaml.YAMLToJSON(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}],"service":{"replicas":1}}}`), []byte(random), uint8(0))
	f.Add([]byte(`{"spec":{"services":{"a":null},"restart":{}},"status":{"restart":{},"services":{"b":{}}}}`), []byte(`{}`), []byte(random), uint8(255))
	f.Add([]byte(`{"metadata":{"name":"g"},"spec":{"services":{"W":{"componentType":"worker","multinode":{"nodeCount":2},"eppConfig":{}}}}}`), []byte(`null`), []byte(random), uint8(1))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, graphText, componentText []byte, random []byte, choices uint8) {
		g, c := &v1alpha1.DynamoGraphDeployment{}, &v1alpha1.DynamoComponentDeployment{}
		if json.Unmarshal(graphText, g) != nil || json.Unmarshal(componentText, c) != nil {
			return
		}
		imagine(random, g, c)
		yes := func(bit int) bool { return choices&(1<<bit) != 0 }
		served := input.Capabilities{Grove: yes(0), LWS: yes(1), Volcano: yes(2), KAI: yes(3), InferencePool: yes(4), Istio: yes(5)}
		p := Place{Graph: input.Graph{Settings: input.Settings{Serves: served, ClusterWide: yes(6)}, OnGrove: yes(0) && yes(7)}}
		judgePass(t, g, c, p, scheme)
	})
}

// judgePass makes a pass over a graph whose services are all in the state of one component.
func judgePass(t *testing.T, g *v1alpha1.DynamoGraphDeployment, c *v1alpha1.DynamoComponentDeployment, p Place, scheme *runtime.Scheme) {
	t.Helper()
	plan := Desired(g, p, scheme)
	if again := Desired(g, p, scheme); plan.Problems.ToAggregate() != nil && again.Problems.ToAggregate().Error() != plan.Problems.ToAggregate().Error() {
		t.Errorf("two looks at one graph differ:\n%v\n%v", plan.Problems, again.Problems)
	}
	if len(plan.Problems) > 0 && len(plan.Children) > 0 {
		t.Errorf("a graph with problems gets children: %v", plan.Problems)
	}
	seen := Seen{OnGrove: p.OnGrove, Services: map[string]Service{}}
	for name := range g.Spec.Services {
		seen.Services[name] = asComponent(name, c)
	}
	restart := nextRestart(g, seen)
	now := metav1.NewTime(time.Unix(1, 0))
	next := Status(g, apply.Result{}, seen, restart, now)
	if len(plan.Problems) > 0 {
		next = Refused(g, plan.Problems, seen, now)
	}
	if conditions.Find(next.Conditions, v1alpha1.ConditionReady) == nil {
		t.Error("a status has no Ready condition")
	}
	after := g.DeepCopy()
	after.Status = next
	_ = Events(g.Status, next)
	if len(plan.Problems) > 0 {
		if diff := cmp.Diff(next, Refused(after, plan.Problems, seen, now)); diff != "" {
			t.Errorf("a status that was stored leads to another one (-first +second):\n%s", diff)
		}
	}
}

// random is where the search for strange objects begins.
const random = "\x01\x7f\x00\xff\x10\x03\x80\x42 any bytes will do, the more the stranger the object \x01\x02\x03\xfe\xfd"

// imagine fills what the texts left empty with whatever the bytes stand for.
func imagine(from []byte, objects ...any) {
	if len(from) == 0 {
		return
	}
	fill := randfill.NewFromGoFuzz(from).NilChance(.3).NumElements(0, 2).MaxDepth(9)
	for _, o := range objects {
		fill.Fill(o)
	}
}
