// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deletion tells how graphs and components go: by every policy, in every order, with and without the operator, with
// and without an etcd that holds their keys. Kubernetes' own controllers run, its garbage collector among them; there are no
// nodes, so pods wait and go at once.
//
// Tests of this package follow one another, because the operator of one works in all namespaces. Their stories run beside
// each other.
package deletion

import (
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithControllerManager(),
		harness.WithModuleCRDs("sigs.k8s.io/lws@v0.8.0", "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"))
}
