// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// Replica is one of several operators of all namespaces, and where its webhooks listen.
type Replica struct {
	*Process

	Webhook string
}

// ReplicaOptions say how replicas are started. Those of one operator share them.
type ReplicaOptions struct {
	// User is their identity, and Namespace where they keep what is theirs.
	User, Namespace string
	// Version is what they stamp on new graphs, and Certificates the member of that name in their configuration.
	Version, Certificates string
}

// StartReplica starts an operator whose webhooks are reached by a balancer, and has the balancer know of it. It goes on answering for
// two seconds after it was told to end.
func StartReplica(t testing.TB, b *Balancer, o ReplicaOptions) *Replica {
	t.Helper()
	r := &Replica{Webhook: UnusedAddress(t)}
	_, port, err := net.SplitHostPort(r.Webhook)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "operator.yaml")
	err = os.WriteFile(config, fmt.Appendf(nil, `apiVersion: config.nvidia.com/v1alpha1
kind: OperatorConfiguration
operatorVersion: %s
leaderElection: {enabled: true, id: dynamo.nvidia.com, namespace: %s}
webhooks:
  enabled: true
  bindAddress: 127.0.0.1
  port: %s
  clientURL: https://%s
  drainPeriod: 2s
  certificates: {%s}
`, o.Version, o.Namespace, port, b.Address, o.Certificates), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r.Process = StartProcess(t, ProcessOptions{User: o.User, Flags: []string{"--config=" + config}, Env: []string{"POD_NAMESPACE=" + o.Namespace}})
	b.Add(r.Webhook, func() error {
		if !r.Ready() {
			return errors.New("it is not ready")
		}
		return nil
	})
	return r
}

// Replace has another replica take the place of one, as a Deployment does of which nothing may be unavailable: the old one is told to
// end when all are ready, and connections still reach it until the balancer notices.
func (b *Balancer) Replace(t testing.TB, old *Replica, o ReplicaOptions) *Replica {
	t.Helper()
	r := StartReplica(t, b, o)
	b.AwaitAll(t)
	old.Stop()
	b.Remove(old.Webhook)
	return r
}

// StartDryRuns creates so many graphs per second in a namespace without storing them. None may fail, and the machine must be fast
// enough for them.
func StartDryRuns(t testing.TB, namespace string, perSecond int) *Load {
	t.Helper()
	api := Client(t)
	var serial atomic.Int64
	return StartLoad(t, perSecond, func(ctx context.Context) error {
		g := builders.Graph(namespace, fmt.Sprint("dry", serial.Add(1))).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj()
		return api.Create(ctx, g, client.DryRunAll)
	}).Strict()
}
