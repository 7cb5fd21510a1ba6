// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterwide

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// theLaterOfTwoGraphsHearsOfIt has two teams call their graphs alike. Both are published under that name.
func theLaterOfTwoGraphsHearsOfIt(t *testing.T) {
	first, second := harness.Namespace(t), harness.Namespace(t)
	if second < first {
		first, second = second, first // of one second, the name decides
	}
	create(t, builders.TwoComponents(first, "same-name").Obj())
	harness.AwaitReady(t, first, "same-name")
	create(t, builders.TwoComponents(second, "same-name").Obj())
	harness.AwaitReady(t, second, "same-name")
	conflict := func(ns string) string {
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "same-name"}, g); err != nil {
			t.Fatal(err)
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionHostConflict)
		if c == nil {
			return ""
		}
		return c.Message
	}
	harness.Eventually(t, patience, "the later one hears of it", func() (bool, string) {
		message := conflict(second)
		return strings.Contains(message, "same-name.example.com is also published by graph "+first+"/same-name") &&
			strings.Contains(message, "spec.services[Frontend].ingress.host"), message
	})
	if message := conflict(first); message != "" {
		t.Errorf("the first one is told: %s", message)
	}
	harness.Change(t, client.ObjectKey{Namespace: first, Name: "same-name"}, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Frontend"].Ingress = &v1alpha1.IngressSpec{}
	})
	harness.Eventually(t, patience, "the conflict is over", func() (bool, string) { return conflict(second) == "", conflict(second) })
}
