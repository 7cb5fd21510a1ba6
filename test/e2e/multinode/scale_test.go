// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package multinode

import (
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// longRun says that there is time for the sizes that people really have.
var longRun = os.Getenv("DYNAMO_TEST_LONG") != ""

// nodes are enough for every pod of this package.
func nodes() int {
	if longRun {
		return 80
	}
	return 24
}

// TestWritesGrowWithGroupsAndNotWithPods makes one graph after another; the requests of each are told apart by the user of
// its operator.
func TestWritesGrowWithGroupsAndNotWithPods(t *testing.T) {
	t.Parallel()
	small, large, perGroup := cost(t, 2, 2), cost(t, 2, 6), cost(t, 6, 2)
	if small != large {
		t.Errorf("two groups cost %d writes with two nodes each and %d with six", small, large)
	}
	// Each further group is one LeaderWorkerSet.
	if got := perGroup - small; got != 4 {
		t.Errorf("four more groups cost %d more writes, want 4", got)
	}
}

func TestManyGroupsOfManyNodesBecomeReady(t *testing.T) {
	if !longRun {
		t.Skip("512 pods take minutes; make test-long runs it")
	}
	began := time.Now()
	writes := cost(t, 64, 8)
	t.Logf("64 groups of 8 nodes: ready after %s, %d objects written", time.Since(began).Round(time.Second), writes)
	if want := 64 + cost(t, 1, 2) - 1; writes != want {
		t.Errorf("%d writes, want %d", writes, want)
	}
}

// cost returns how many objects the operator wrote to make a graph of some groups ready, without status and events.
func cost(t *testing.T, groups, size int32) int {
	t.Helper()
	ns := harness.Namespace(t)
	operator := harness.StartOperator(t, ns)
	create(t, builders.Graph(ns, "big").Service("Decode", v1alpha1.ComponentTypeDecode,
		builders.Args("python3 -m dynamo.sglang --tp 2"), builders.Nodes(size), builders.Replicas(groups)).Obj())
	within := patience
	if longRun {
		within = 20 * time.Minute
	}
	g := &v1alpha1.DynamoGraphDeployment{}
	harness.Eventually(t, within, "ready", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "big"}, g); err != nil {
			return false, err.Error()
		}
		return g.Status.State == v1alpha1.GraphStateSuccessful, g.Status.State
	})
	operator.Stop()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	done := perf.Fold(records, operator.User)
	if err := harness.Client(t).Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d groups of %d: %+v", groups, size, done)
	return done.Creates + done.Updates + done.Deletes
}
