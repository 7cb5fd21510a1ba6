// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package living tells what users see of graphs that change: updates, restarts, pauses, and why something does not work,
// with the controllers and the scheduler of Kubernetes and simulated nodes.
package living

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) { harness.Main(m, harness.WithNodes(4, 8)) }

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

func change(t *testing.T, ns string, edit func(*v1alpha1.DynamoGraphDeployment)) {
	t.Helper()
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, edit)
}

func graph(t *testing.T, ns string) *v1alpha1.DynamoGraphDeployment {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
		t.Fatal(err)
	}
	return g
}

// awaitCondition waits until a condition of the graph's latest generation is as wanted.
func awaitCondition(t *testing.T, ns, kind, what string, is func(metav1.Condition) bool) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	harness.Eventually(t, patience, what, func() (bool, string) {
		g := graph(t, ns)
		c := meta.FindStatusCondition(g.Status.Conditions, kind)
		if c == nil {
			return false, "no condition " + kind
		}
		found = *c
		return c.ObservedGeneration == g.Generation && is(*c), string(c.Status) + " " + c.Message
	})
	return found
}

// pods returns the pods of a service by name.
func pods(t *testing.T, ns, service string) map[string]corev1.Pod {
	t.Helper()
	var all corev1.PodList
	err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns), client.MatchingLabels{names.LabelComponent: service})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]corev1.Pod{}
	for _, p := range all.Items {
		if p.DeletionTimestamp == nil {
			byName[p.Name] = p
		}
	}
	return byName
}
