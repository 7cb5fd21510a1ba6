// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tenancy_test runs an operator of the whole cluster and operators of one namespace as processes, and starts,
// stops, freezes and kills them while graphs are being edited. What they wrote is read from the audit log of the API
// server, where each process has a name of its own.
package tenancy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithAudit())
}

const (
	// duration and renewal are those of the claims.
	duration = 4 * time.Second
	renewal  = time.Second

	// slack is what a loaded machine may take for what is done at once.
	slack = 3 * time.Second

	graphs = 3
	// editing is the pause between two edits.
	editing = 50 * time.Millisecond
)

// serial tells processes apart.
var serial atomic.Int64

// story is one namespace in which graphs are edited all the time, and the operators that come and go.
type story struct {
	*testing.T

	namespace string
	begin     int64
	// lasts is the duration of the claims.
	lasts time.Duration
	// resumed is when a restricted operator that was frozen went on. One write of it may arrive then, although its claim is over:
	// whoever is frozen between its last look at the clock and the end of a system call finishes that call (ADR 0008).
	resumed time.Time
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, namespace: harness.Namespace(t), lasts: duration}
	_, begin, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.begin = begin
	harness.SimulateDeployments(t, s.namespace)
	for i := range graphs {
		g := builders.Graph(s.namespace, fmt.Sprintf("g%d", i)).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj()
		if err := harness.Client(t).Create(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	s.edit()
	return s
}

// edit changes one graph after the other until the test ends, so that whoever may work always has work.
func (s *story) edit() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(editing)
		defer ticker.Stop()
		for n := 0; ; n++ {
			g := &v1alpha1.DynamoGraphDeployment{}
			g.Name, g.Namespace = fmt.Sprintf("g%d", n%graphs), s.namespace
			change := fmt.Sprintf(`{"spec":{"services":{"Frontend":{"replicas":%d}}}}`, 1+n/graphs%5)
			if err := harness.Client(s).Patch(ctx, g, client.RawPatch(types.MergePatchType, []byte(change))); err != nil && ctx.Err() == nil {
				ended <- fmt.Errorf("edit graph %s: %w", g.Name, err)
				return
			}
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-ticker.C:
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// clusterWide starts an operator of all namespaces.
func (s *story) clusterWide() *harness.Process {
	s.Helper()
	return harness.StartProcess(s, harness.ProcessOptions{User: fmt.Sprintf("cluster-%d", serial.Add(1))})
}

// restricted starts an operator of the namespace.
func (s *story) restricted(opts ...func(*harness.ProcessOptions)) *harness.Process {
	s.Helper()
	o := harness.ProcessOptions{
		User: fmt.Sprintf("restricted-%d", serial.Add(1)), Namespace: s.namespace,
		Flags: []string{"--namespace-scope-lease-duration=" + duration.String(), "--namespace-scope-lease-renew-interval=" + renewal.String()},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return harness.StartProcess(s, o)
}

// restartedInItsPod is for processes of which each comes after the end of the one before.
func restartedInItsPod(o *harness.ProcessOptions) { o.Env = append(o.Env, "POD_UID=the-only-one") }

// asShipped is for those who configure nothing.
func asShipped(o *harness.ProcessOptions) { o.Flags = nil }

// patient waits for the other side for longer than that takes to answer.
func patient(o *harness.ProcessOptions) {
	o.Flags = append(o.Flags, "--namespace-scope-lease-renew-interval="+(duration/2).String())
}

// lease is the claim on the namespace, nil if there is none.
func (s *story) lease() *coordinationv1.Lease {
	s.Helper()
	l := &coordinationv1.Lease{}
	err := harness.Client(s).Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: names.ScopeLease}, l)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return l
}

// requests are those about the namespace since the story began.
func (s *story) requests() []localcluster.AuditRecord {
	s.Helper()
	all, _, err := localcluster.ReadAudit(harness.AuditLog(s), s.begin)
	if err != nil {
		s.Fatal(err)
	}
	var here []localcluster.AuditRecord
	for _, r := range all {
		if r.Namespace == s.namespace {
			here = append(here, r)
		}
	}
	return here
}

// takesOver waits for the first write of a process after something happened, and judges how long that took.
func (s *story) takesOver(p *harness.Process, since time.Time, limit time.Duration) {
	s.Helper()
	first := s.await(p, isWork, since)
	took := first.Received.Sub(since).Round(time.Millisecond)
	s.Logf("%s wrote %s later", p.User, took)
	if took > limit {
		s.Errorf("%s took %s to begin, want %s at most", p.User, took, limit)
	}
}

// begins waits for the first write of a restricted operator, and judges for how long nobody worked: from its claim on.
func (s *story) begins(p *harness.Process) {
	s.Helper()
	claim := s.await(p, isClaim, time.Time{})
	s.takesOver(p, claim.Answered, s.lasts+slack)
}

// await waits for the first request of a kind that a process made after something happened.
func (s *story) await(p *harness.Process, kind func(localcluster.AuditRecord) bool, since time.Time) localcluster.AuditRecord {
	s.Helper()
	var found localcluster.AuditRecord
	harness.Eventually(s, s.lasts+time.Minute, p.User+" writing", func() (bool, string) {
		for _, r := range s.requests() {
			if r.User == p.User && kind(r) && r.Received.After(since) {
				found = r
				return true, ""
			}
		}
		return false, p.LastWords(10)
	})
	return found
}

// configuration writes a configuration file with some members.
func configuration(t *testing.T, members string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n"+members), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
