// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"strings"
	"testing"
)

func TestCRDsOfAModuleAreThoseItShips(t *testing.T) {
	t.Parallel()
	const module = "sigs.k8s.io/gateway-api-inference-extension@v1.3.0"
	crds, err := ModuleCRDs(t.Context(), module, "config/crd/bases/inference.networking.k8s.io_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(crds) != 1 || crds[0].Name != "inferencepools.inference.networking.k8s.io" {
		t.Errorf("got %d CRDs: %v", len(crds), crds)
	}
	if _, err := ModuleCRDs(t.Context(), module, "nowhere/*.yaml"); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a pattern without files gives %v", err)
	}
}
