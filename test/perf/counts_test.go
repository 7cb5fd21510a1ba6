// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// children of a two-component graph on the Deployment path: account, role and binding for discovery, two components,
// and a Deployment and a Service for each.
const children = 3 + 2 + 2*2

func TestATwoComponentGraphCostsItsChildrenAndTwoStatusWritesPerResource(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	trail := NewTrail(t)

	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	records := trail.Settle(operator.User, time.Minute)

	got := Fold(records, operator.User)
	if got.Events < 1 || got.Events > 2 {
		t.Errorf("%d events, want 1 or 2", got.Events)
	}
	for object, writes := range StatusWritesPerObject(records, operator.User) {
		if writes > 2 {
			t.Errorf("%d status writes of %s, want at most 2", writes, object)
		}
	}
	for _, r := range records {
		if r.User == operator.User && r.Verb == "patch" && !strings.Contains(r.URI, "fieldValidation=Ignore") {
			t.Errorf("the API server is asked to look for unknown fields, and parses everything twice: %s", r.URI)
		}
	}
	got.Events, got.Status = 0, 0
	if diff := cmp.Diff(Requests{Creates: children}, got); diff != "" || t.Failed() {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, Transcript(records, operator.User))
	}
}

func TestANoOpReconcileCostsNothing(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	NewTrail(t).Settle(operator.User, time.Minute)
	trail := NewTrail(t)

	before := harness.Passes(t, "DynamoGraphDeployment")
	touch(t, ns, "chat")
	records := trail.Settle(operator.User, time.Minute)
	if harness.Passes(t, "DynamoGraphDeployment") == before {
		t.Error("the graph was not reconciled, so nothing was counted")
	}
	if diff := cmp.Diff(Requests{}, Fold(records, operator.User)); diff != "" {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, Transcript(records, operator.User))
	}
}

func TestARestartedOperatorWritesNothing(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	first := harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	NewTrail(t).Settle(first.User, time.Minute)
	first.Stop()
	trail := NewTrail(t)

	before := harness.Passes(t, "DynamoComponentDeployment")
	second := harness.StartOperator(t, ns)
	records := trail.Settle(second.User, time.Minute)
	if harness.Passes(t, "DynamoComponentDeployment") < before+2 {
		t.Error("the components were not reconciled, so nothing was counted")
	}
	got := Fold(records, second.User)
	got.Reads = 0 // they follow
	checkReads(t, records, second.User, "none is its own", readsOfARestrictedOperator())
	if diff := cmp.Diff(Requests{}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, Transcript(records, second.User))
	}
}

func create(t *testing.T, g *v1alpha1.DynamoGraphDeployment) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatalf("create graph: %v", err)
	}
}

// touch changes an annotation that means nothing to the operator.
func touch(t *testing.T, namespace, name string) {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	g.Namespace, g.Name = namespace, name
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/note":"hello"}}}`))
	if err := harness.Client(t).Patch(t.Context(), g, patch); err != nil {
		t.Fatalf("touch graph: %v", err)
	}
}
