// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterwide tells what users do and see under an operator that works in all namespaces, on a cluster whose
// controllers run and whose nodes, with their GPUs, are simulated.
package clusterwide

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithNodes(12, 8), harness.WithLWS(),
		harness.WithModuleCRDs("sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml"))
}

// TestUnderAClusterWideOperator shares one operator among all stories of this package: two would fight.
func TestUnderAClusterWideOperator(t *testing.T) {
	t.Parallel()
	harness.StartOperator(t, harness.ClusterWide, harness.WithFlags(
		"--planner-cluster-role-name=dynamo-operator-planner", "--epp-cluster-role-name=dynamo-operator-epp",
		"--ingress-controller-class-name=nginx", "--ingress-host-suffix=example.com", "--mpi-run-ssh-secret-namespace=kube-system"))
	t.Run("stories", func(t *testing.T) { // the operator outlives what runs in parallel below
		t.Run("every example becomes ready", everyExampleBecomesReady)
		for name, story := range map[string]func(*testing.T){
			"accounts of planners go with the last graph that needs them": plannerAccountsGoWithTheLastGraph,
			"an account that somebody made is used as it is":              aStrangersAccountIsUsed,
			"a deleted graph leaves nothing":                              aDeletedGraphLeavesNothing,
			"an edited picker configuration reaches its ConfigMap":        anEditedPickerConfigurationArrives,
			"a deleted component comes back without a fuss":               aDeletedComponentComesBack,
			"the later of two graphs with one host hears of it":           theLaterOfTwoGraphsHearsOfIt,
			"a model of which nobody serves the base says so, and goes":   aModelWithoutABaseSaysSo,
			"an adapter and a claim are made, given back and let go":      adaptersAndClaimsComeAndGo,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t)
			})
		}
	})
}
