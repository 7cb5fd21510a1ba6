// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// children of a two-component graph on the Deployment path: account, role and binding for discovery, two components,
// and a Deployment and a Service for each.
const children = 3 + 2 + 2*2

func TestATwoComponentGraphCostsItsChildrenAndTwoStatusWritesPerResource(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	since := mark(t)

	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	records := settled(t, operator.User, since)

	got := Fold(records, operator.User)
	if got.Events < 1 || got.Events > 2 {
		t.Errorf("%d events, want 1 or 2", got.Events)
	}
	for object, writes := range StatusWritesPerObject(records, operator.User) {
		if writes > 2 {
			t.Errorf("%d status writes of %s, want at most 2", writes, object)
		}
	}
	got.Events, got.Status = 0, 0
	if diff := cmp.Diff(Requests{Creates: children}, got); diff != "" || t.Failed() {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, Transcript(records, operator.User))
	}
}

func TestANoOpReconcileCostsNothing(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	operator := harness.StartOperator(t, ns)
	g := builders.TwoComponents(ns, "chat").Obj()
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	settled(t, operator.User, 0)
	since := mark(t)

	touch(t, ns, "chat")
	records := settled(t, operator.User, since)
	if diff := cmp.Diff(Requests{}, Fold(records, operator.User)); diff != "" {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, Transcript(records, operator.User))
	}
}

func TestARestartedOperatorWritesNothing(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	first := harness.StartOperator(t, ns)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	settled(t, first.User, 0)
	first.Stop()
	since := mark(t)

	second := harness.StartOperator(t, ns)
	records := settled(t, second.User, since)
	got := Fold(records, second.User)
	got.Reads = 0 // filling the caches
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

// mark returns the place in the audit log from which to count.
func mark(t *testing.T) int64 {
	t.Helper()
	_, end, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// quiet is how long an operator must have asked nothing to count as settled. It is longer than every pause the operator
// makes on its own account: status progress is held for one second, unseen writes are believed for five.
const quiet = 6 * time.Second

// settled waits until the user has been quiet and returns all its requests since the mark.
func settled(t *testing.T, user string, since int64) []localcluster.AuditRecord {
	t.Helper()
	var records []localcluster.AuditRecord
	last, seen := time.Now(), -1
	harness.Eventually(t, time.Minute, user+" settles", func() (bool, string) {
		all, _, err := localcluster.ReadAudit(harness.AuditLog(t), since)
		if err != nil {
			return false, err.Error()
		}
		n := 0
		for _, r := range all {
			if r.User == user && r.Verb != "watch" {
				n++
			}
		}
		if n != seen {
			last, seen, records = time.Now(), n, all
		}
		return time.Since(last) > quiet, Transcript(all, user)
	})
	return records
}
