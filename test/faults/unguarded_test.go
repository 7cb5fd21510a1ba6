// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// mistakes are what a webhook would have refused. The definitions of this package have no rules either.
var mistakes = map[string]func(*v1alpha1.DynamoGraphDeployment){
	"no image": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image = ""
	},
	"an impossible budget": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Annotations = map[string]string{names.AnnotationDisruptionBudget: "most"}
	},
	"a configuration that is no JSON": func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Decode"].Envs = []corev1.EnvVar{{Name: v1alpha1.DeploymentConfigEnv, Value: "no JSON"}}
	},
}

// TestWithoutAWebhookAMistakeMakesNothing stores graphs with a mistake while no webhook is there: new ones make nothing, and what
// an older generation made stays as it is.
func TestWithoutAWebhookAMistakeMakesNothing(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(mistakes)) {
		r := &Result{Goal: "L14", Scenario: "a graph with " + name, Fault: "no webhook"}
		if !b.isWanted(t, *r) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.record(t, r)
			ns, wire := b.begin(t)
			before := b.rest(t, ns, wire)
			wrong := rich(ns)
			mistakes[name](wrong)
			create(t, wrong)
			refused(t, ns)
			after := b.lastRest(t, ns, wire)
			delete(after, graphs+"/chat")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
			remove(t, wrong, metav1.DeletePropagationBackground)
			graphGone(t, ns)
			createRich(t, ns)
			before = b.rest(t, ns, wire)
			change(t, ns, mistakes[name])
			refused(t, ns)
			after = b.lastRest(t, ns, wire)
			delete(before, graphs+"/chat")
			delete(after, graphs+"/chat")
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("a change (-before +after):\n%s", diff)
			}
			r.Faults = 2
		})
	}
}
