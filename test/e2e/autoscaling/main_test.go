// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package autoscaling lets the autoscaler of Kubernetes scale a graph, on a cluster whose controllers run, with metrics that
// the test serves.
package autoscaling

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithNodes(2, 8), harness.WithControllerManagerArgs("--horizontal-pod-autoscaler-sync-period=1s"))
}
