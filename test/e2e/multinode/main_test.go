// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multinode tells what users see of services whose replicas span several nodes, with the real LeaderWorkerSet
// controller and its webhooks on simulated nodes.
package multinode

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithNodes(nodes(), 8), harness.WithLWS(), harness.WithAudit())
}
