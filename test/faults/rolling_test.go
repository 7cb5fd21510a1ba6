// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// replicas is how many answer for the webhooks, dryRuns how many graphs are created per second meanwhile, and endpointLag for how
	// long a Service goes on leading to a replica that is ending.
	replicas    = 2
	dryRuns     = 50
	endpointLag = time.Second
)

// TestNoRequestFailsWhileReplicasAreRestarted restarts replicas one after another for as long as a flag says. What one rolling restart
// does is part of test/e2e/production. It runs beside no other test, because its webhooks count for a whole control plane, of which it
// has its own: its operators would work for the graphs that other tests left.
func TestNoRequestFailsWhileReplicasAreRestarted(t *testing.T) {
	b := theBed(t)
	r := &Result{
		Goal: "L14", Scenario: fmt.Sprintf("%d replicas restarted one after another", replicas),
		Fault: fmt.Sprintf("restart beside %d creations a second for %s", dryRuns, *rolling), Lasting: *rolling,
	}
	if *rolling == 0 || *binary != "" || !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	options := harness.ReplicaOptions{User: "operator-rolling", Namespace: "dynamo-system", Version: "9.9.9"}
	harness.OperatorBinary(t) // which would otherwise go with the control plane of this test
	harness.Fresh(t)
	if err := harness.Client(t).Create(t.Context(), &corev1.Namespace{ObjectMeta: named("", options.Namespace)}); err != nil {
		t.Fatal(err)
	}
	ns := harness.Namespace(t)
	harness.InstallWebhooks(t)
	balancer := harness.StartBalancer(t, endpointLag)
	var running []*harness.Replica
	for range replicas {
		running = append(running, harness.StartReplica(t, balancer, options))
	}
	balancer.AwaitAll(t)
	load := harness.StartDryRuns(t, ns, dryRuns)
	for end := time.Now().Add(*rolling); time.Now().Before(end); r.Faults++ {
		turn := r.Faults % replicas
		running[turn] = balancer.Replace(t, running[turn], options)
	}
	load.More(2 * dryRuns)
	r.Note = load.Stop(fmt.Sprintf("%d restarts", r.Faults))
}
