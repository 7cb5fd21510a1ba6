// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grove tells what users see of graphs that run on Grove. Grove's API and admission are real objects of the API
// server; what its controllers do is played by test/simulator/grove.
package grove

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithGrove(), harness.WithKAI(), harness.WithControllerManager())
}

// TestUnderAClusterWideOperator shares one operator among all stories of this package: two would fight.
func TestUnderAClusterWideOperator(t *testing.T) {
	t.Parallel()
	harness.StartOperator(t, harness.ClusterWide, harness.WithFlags(
		"--planner-cluster-role-name=dynamo-operator-planner", "--epp-cluster-role-name=dynamo-operator-epp",
		"--ingress-controller-class-name=nginx", "--mpi-run-ssh-secret-namespace=kube-system"))
	queue(t, "dynamo")
	t.Run("stories", func(t *testing.T) { // the operator outlives what runs in parallel below
		for name, story := range map[string]func(*testing.T){
			"a graph becomes ready and is counted":                aGraphBecomesReady,
			"replicas follow the graph":                           replicasFollow,
			"adapters scale cliques and their groups":             adaptersScale,
			"an update is ready when its pods are":                anUpdateIsReadyWhenItsPodsAre,
			"a restart goes from service to service":              aRestartGoesFromServiceToService,
			"a parallel restart waits for all":                    aParallelRestartWaitsForAll,
			"what Grove does not let change is refused":           whatGroveHoldsIsRefused,
			"a queue that is not there is named, and waited for":  aMissingQueueIsNamed,
			"a graph moves off Grove and back":                    aGraphMovesOffGroveAndBack,
			"a deleted graph leaves nothing":                      aDeletedGraphLeavesNothing,
			"mpirun has its key, which goes with the last user":   mpirunHasItsKey,
			"a changed key reaches its copies":                    aChangedKeyReachesItsCopies,
			"Grove's own refusal is shown":                        grovesRefusalIsShown,
			"a user's edit of the set is undone, Grove's kept":    editsOfTheSet,
			"what Grove made without us is adopted with its gang": adoptedGang,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t)
			})
		}
	})
}

func queue(t *testing.T, name string) {
	t.Helper()
	q := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	q.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2", Kind: "Queue"})
	q.SetName(name)
	create(t, q)
}
