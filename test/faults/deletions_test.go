// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// partingScenarios are stories of several things that go, in one order and the other, and while nobody looks. Where children are
// orphaned, the operator has nothing to write; test/e2e/deletion has that story.
var partingScenarios = map[string]scenario{
	"delete a graph before its model": {
		before: createServed,
		during: func(t *testing.T, ns string) {
			removeGraph(t, ns)
			removeModel(t, ns)
		},
		ended: allGone,
		crew:  true,
	},
	"delete a model before its graph": {
		before: createServed,
		during: func(t *testing.T, ns string) {
			removeModel(t, ns)
			removeGraph(t, ns)
		},
		ended: allGone,
		crew:  true,
	},
	"delete an adapter": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			remove(t, &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: named(ns, "chat-decode")}, metav1.DeletePropagationBackground)
		},
		ended: func(t *testing.T, ns string) { scaled(t, ns, 1) },
	},
	"delete components before their graph while no operator is there": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			for _, name := range []string{"chat-decode", "chat-frontend"} {
				remove(t, &v1alpha1.DynamoComponentDeployment{ObjectMeta: named(ns, name)}, metav1.DeletePropagationBackground)
			}
			removeGraph(t, ns)
		},
		ended: func(t *testing.T, ns string) {
			graphGone(t, ns)
			gone(t, ns, "chat-decode", &v1alpha1.DynamoComponentDeployment{})
		},
		etcd:    true,
		upgrade: []string{},
	},
	"delete a graph of groups of nodes": {
		before: createGrouped,
		during: func(t *testing.T, ns string) { removeGraph(t, ns) },
		ended:  graphGone,
		etcd:   true,
		apis:   []string{groupsOfNodes},
	},
}

// createServed makes a graph and a model beside it, of the same base model.
func createServed(t *testing.T, ns string) {
	t.Helper()
	create(t, builders.TwoComponents(ns, "chat").Change("Decode", servesModel).Obj())
	harness.AwaitReady(t, ns, "chat")
	createModelReady(t, ns)
}

func removeGraph(t *testing.T, ns string) {
	t.Helper()
	remove(t, builders.Graph(ns, "chat").Obj(), metav1.DeletePropagationBackground)
}

func removeModel(t *testing.T, ns string) {
	t.Helper()
	remove(t, &v1alpha1.DynamoModel{ObjectMeta: named(ns, "sql")}, metav1.DeletePropagationBackground)
}

func allGone(t *testing.T, ns string) {
	t.Helper()
	graphGone(t, ns)
	gone(t, ns, "sql", &v1alpha1.DynamoModel{})
}
