// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/webhook"
)

// InstallWebhooks registers the webhooks that the operator is shipped with, until the test ends. They count for the whole
// control plane: with no operator that answers, nobody can create a graph.
func InstallWebhooks(t testing.TB) {
	t.Helper()
	validating, mutating, err := webhook.Both()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []client.Object{validating, mutating} {
		if err := Client(t).Create(t.Context(), c); err != nil {
			t.Fatalf("register %s: %v", c.GetName(), err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(Client(t).Delete(context.Background(), c)); err != nil {
				t.Errorf("take %s away: %v", c.GetName(), err)
			}
		})
	}
}
