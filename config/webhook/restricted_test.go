// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write restricted/manifests.yaml anew")

const restricted = "restricted/manifests.yaml"

// restrict makes of the webhooks of all namespaces those of one. NAMESPACE and CA_BUNDLE are for whoever registers them.
func restrict(manifests string) string {
	_, manifests, _ = strings.Cut(manifests, "apiVersion:")
	return `# The webhooks of an operator of one namespace. It may not register them itself: an administrator puts the namespace in for
# NAMESPACE, and the authority of the operator's certificate, in base64, for CA_BUNDLE. docs/restricted.md tells how.
# Made from ../manifests.yaml by make generate; do not edit.
apiVersion:` + strings.NewReplacer(
		"name: dynamo-operator-validating", "name: dynamo-operator-validating-NAMESPACE",
		"name: dynamo-operator-mutating", "name: dynamo-operator-mutating-NAMESPACE",
		"namespace: dynamo-system", "namespace: NAMESPACE",
		"  clientConfig:\n", "  clientConfig:\n    caBundle: CA_BUNDLE\n",
		"  failurePolicy:", "  namespaceSelector:\n    matchLabels:\n      kubernetes.io/metadata.name: NAMESPACE\n  failurePolicy:",
	).Replace(manifests)
}

func TestTheRestrictedWebhooksAreTheOthersForOneNamespace(t *testing.T) {
	t.Parallel()
	manifests, err := os.ReadFile("manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := restrict(string(manifests))
	if *update {
		if err := os.WriteFile(restricted, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(restricted)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("config/webhook/%s is out of date; run make generate (-want +got):\n%s", restricted, diff)
	}
	validating, mutating := shipped(t)
	hooks := len(validating.Webhooks) + len(mutating.Webhooks)
	for _, what := range []string{"caBundle: CA_BUNDLE", "kubernetes.io/metadata.name: NAMESPACE", "namespace: NAMESPACE\n      path:"} {
		if n := strings.Count(want, what); n != hooks {
			t.Errorf("%q stands there %d times for %d webhooks", what, n, hooks)
		}
	}
}
