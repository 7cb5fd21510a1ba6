// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds tells, for every kind of object that the operator makes, what becomes of it when its name is taken and
// when nobody wants it any longer. Each is made and taken away with a right of its own.
package kinds

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// All definitions are the real ones, apart from those of Volcano and KAI. Topologies change here that users cannot change, since
// what was stored before there was a rule has to be cleared away as well.
func TestMain(m *testing.M) {
	harness.Main(m, harness.WithLooseTopology(), harness.WithAudit(), harness.WithGrove(), harness.WithVolcano(), harness.WithKAI(),
		harness.WithModuleCRDs("sigs.k8s.io/lws@v0.8.0", "config/crd/bases/*.yaml"),
		harness.WithModuleCRDs("sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml"),
		harness.WithModuleCRDs("istio.io/api@v1.27.0", "kubernetes/customresourcedefinitions.gen.yaml"))
}
