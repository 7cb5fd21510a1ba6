// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/simulator"
)

const (
	// ownNamespace is where the operator keeps what is its own.
	ownNamespace = "dynamo-system"
	// electionID names the Lease of the leader.
	electionID = "dynamo.nvidia.com"
	// memoryLimit is what the shipped manifest tells the Go runtime.
	memoryLimit = "GOMEMLIMIT=460MiB"

	// OperatorUser is the operator's identity.
	OperatorUser = "operator-perf"
	// SimulatorUser is that of whoever rolls Deployments out.
	SimulatorUser = localcluster.UserSimulator
	// GeneratorUser is that of whoever makes graphs and watches them.
	GeneratorUser = localcluster.UserAdmin

	// namespaces is over how many namespaces graphs are spread.
	namespaces = 20
	// Connections is how many requests generators, simulators and the null writer have under way at once.
	Connections = 16
)

// Bed is a control plane for one measurement: fresh data, an audit log, and namespaces for graphs.
type Bed struct {
	// Binary is the operator that is measured.
	Binary string

	t testing.TB
	// webhook is where webhooks are served. An operator that starts again serves them at the same place, as behind a Service:
	// otherwise its first deed would be to tell the API server of another.
	webhook string
}

// NewBed starts a control plane that ends with the test. No other test runs beside it.
func NewBed(t testing.TB, binary string, opts ...harness.Option) *Bed {
	t.Helper()
	harness.Fresh(t, append(opts, harness.WithAudit())...)
	b := &Bed{Binary: binary, t: t, webhook: harness.UnusedAddress(t)}
	for _, name := range append([]string{ownNamespace}, b.Namespaces()...) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := harness.Client(t).Create(t.Context(), ns); err != nil {
			t.Fatalf("create namespace %s: %v", name, err)
		}
	}
	return b
}

// Namespaces are those that graphs are spread over.
func (b *Bed) Namespaces() []string {
	all := make([]string, namespaces)
	for i := range all {
		all[i] = fmt.Sprintf("perf-%02d", i)
	}
	return all
}

// BuildOperator builds the operator of this tree, as it is shipped.
func BuildOperator(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator")
	said, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path,
		"github.com/dynamo-operator/dynamo-operator/cmd/operator").CombinedOutput()
	if err != nil {
		t.Fatalf("build the operator: %v: %s", err, said)
	}
	return path
}

// StartOperator starts the operator as a process of its own: for all namespaces, under the shipped role, elected, with
// webhooks and certificates of its own, logging as in production. It returns when the operator is ready and leads. Its
// authority settles sooner than the default, so that it looks for the last time before anything is counted.
func (b *Bed) StartOperator() *harness.Process {
	b.t.Helper()
	_, port, err := net.SplitHostPort(b.webhook)
	if err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(b.t.TempDir(), "operator.yaml")
	text := fmt.Sprintf(`apiVersion: config.nvidia.com/v1alpha1
kind: OperatorConfiguration
operatorVersion: perf
leaderElection: {enabled: true, id: %s, namespace: %s}
webhooks: {enabled: true, bindAddress: 127.0.0.1, port: %s, clientURL: "https://%s", certificates: {settlePeriod: 1s}}
logging: {development: false}
`, electionID, ownNamespace, port, b.webhook)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	before := b.leader()
	p := harness.StartProcess(b.t, harness.ProcessOptions{
		User: OperatorUser, Binary: b.Binary, Flags: []string{"--config=" + file},
		Env: []string{"POD_NAMESPACE=" + ownNamespace, memoryLimit},
	})
	harness.Eventually(b.t, time.Minute, "the operator leads", func() (bool, string) {
		now := b.leader()
		return now != "" && now != before, "the leader is " + now
	})
	return p
}

// leader is who holds the Lease, empty for nobody.
func (b *Bed) leader() string {
	b.t.Helper()
	lease := &coordinationv1.Lease{}
	err := harness.Client(b.t).Get(b.t.Context(), client.ObjectKey{Namespace: ownNamespace, Name: electionID}, lease)
	if client.IgnoreNotFound(err) != nil {
		b.t.Fatalf("read the Lease: %v", err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// Usage is what a component of the control plane, or an operator, has had of the machine.
func (b *Bed) Usage(component string) Usage {
	b.t.Helper()
	pid, err := harness.Cluster(b.t).PID(component)
	if err != nil {
		b.t.Fatal(err)
	}
	u, err := ReadUsage(pid)
	if err != nil {
		b.t.Fatal(err)
	}
	return u
}

// Simulate has every Deployment reported as rolled out at once, until the returned function is called or the test ends.
func (b *Bed) Simulate() (stop func()) {
	b.t.Helper()
	return b.SimulateAfter(0)
}

// SimulateAfter does the same after a delay.
func (b *Bed) SimulateAfter(delay time.Duration) (stop func()) {
	b.t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(b.t, SimulatorUser), client.Options{Scheme: harness.Scheme(b.t)})
	if err != nil {
		b.t.Fatalf("make the simulator's client: %v", err)
	}
	return b.until(func(ctx context.Context) error {
		return simulator.DeploymentsAt(ctx, api, "", simulator.Pace{Requests: Connections, Delay: delay})
	})
}

// until runs something until the returned function is called for the first time, or the test ends.
func (b *Bed) until(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("ended early: %v", err)
		}
	}
	b.t.Cleanup(stop)
	return stop
}

// Revision is how many writes the control plane has stored so far.
func (b *Bed) Revision() int64 {
	b.t.Helper()
	list := &corev1.NamespaceList{}
	if err := harness.Client(b.t).List(b.t.Context(), list, client.Limit(1)); err != nil {
		b.t.Fatalf("ask for the revision: %v", err)
	}
	var revision int64
	if _, err := fmt.Sscan(list.ResourceVersion, &revision); err != nil {
		b.t.Fatalf("the revision is %q: %v", list.ResourceVersion, err)
	}
	return revision
}
