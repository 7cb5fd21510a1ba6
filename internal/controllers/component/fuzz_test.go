// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// FuzzPass feeds a pass with components and Deployments that no schema has looked at: it must not panic, must not make
// anything of a component that it finds fault with, and must be content with a status that it wrote itself.
func FuzzPass(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"c","namespace":"n"},"spec":{"componentType":"worker","replicas":2,"extraPodSpec":{"mainContainer":{"image":"i"}}}}`),
		[]byte(`{"spec":{"replicas":2},"status":{"availableReplicas":2,"observedGeneration":1}}`), []byte(random), uint8(0))
	f.Add([]byte(`{"spec":{"componentType":"epp","multinode":{"nodeCount":3}},"status":{"conditions":[{}]}}`), []byte(`{}`), []byte(random), uint8(2))
	f.Add([]byte(`{"metadata":{"name":"c"},"spec":{"backendFramework":"vllm","multinode":{"nodeCount":2},"resources":{"limits":{"gpu":"x"}}}}`), []byte(`null`), []byte(random), uint8(3))
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, componentText, deploymentText []byte, random []byte, choices uint8) {
		c, d := &v1alpha1.DynamoComponentDeployment{}, &appsv1.Deployment{}
		if json.Unmarshal(componentText, c) != nil || json.Unmarshal(deploymentText, d) != nil {
			return
		}
		imagine(random, c, d)
		yes := func(bit int) bool { return choices&(1<<bit) != 0 }
		s := input.Settings{Serves: input.Capabilities{LWS: yes(0), Volcano: yes(1), Istio: yes(2)}, ClusterWide: yes(3)}
		plan := Desired(c, input.World{}, s, scheme)
		if len(plan.Problems) > 0 && len(plan.Children) > 0 {
			t.Errorf("a component with problems gets children: %v", plan.Problems)
		}
		_ = NeedsKey(c, s)
		_ = standingDeployment(d).keeps(c, s)
		seen := Seen{Deployment: d, Paused: yes(4)}
		_ = HaveToWait(c, plan.Children, seen)
		now := metav1.NewTime(time.Unix(1, 0))
		status := func() v1alpha1.DynamoComponentDeploymentStatus {
			if len(plan.Problems) > 0 {
				return Refused(c, plan.Problems, seen, now)
			}
			return Status(c, apply.Result{}, seen, now)
		}
		next := status()
		if conditions.Find(next.Conditions, v1alpha1.ConditionReady) == nil {
			t.Error("a status has no Ready condition")
		}
		_ = Events(c.Status, next)
		c.Status = next
		if diff := cmp.Diff(next, status()); diff != "" {
			t.Errorf("a status that was stored leads to another one (-first +second):\n%s", diff)
		}
	})
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
