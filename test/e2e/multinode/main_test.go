// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multinode tells what users see of services whose replicas span several nodes, with the real LeaderWorkerSet
// controller and its webhooks on simulated nodes.
package multinode

import (
	"os"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	sets := harness.WithLWS()
	if os.Getenv("DYNAMO_TEST_OLD_LWS") != "" {
		sets = harness.WithOldLWS()
	}
	harness.Main(m, harness.WithNodes(nodes(), 8), sets, harness.WithAudit())
}
