// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// subject is the operator that a story is told with.
type subject interface {
	Stop()
	Kill()
}

// launch starts an operator behind a wire: ours in this process, or whatever -faults.binary names.
func launch(t *testing.T, ns string, wire *Wire, flags ...string) subject {
	t.Helper()
	return launchWith(t, ns, wire, nil, flags...)
}

// launchWith starts an operator that reaches workers in a way of its own.
func launchWith(t *testing.T, ns string, wire *Wire, dial mockengine.Dial, flags ...string) subject {
	t.Helper()
	defer wire.Started()
	if *binary == "" {
		return startLabelled(t, ns, harness.WithTransport(wire.Wrap), harness.WithFlags(flags...), harness.WithWorkers(dial))
	}
	return launchBinary(t, ns, wire, blackBox{path: *binary, arguments: append(strings.Fields(*arguments), flags...)})
}

// boxes numbers processes, so that their logs have different names.
var boxes atomic.Int64

// blackBox is a program of which nothing is known but how to start it.
type blackBox struct {
	path      string
	arguments []string
	// env are further environment variables.
	env []string

	t    *testing.T
	name string
}

// launchBinary starts a program that finds the API server behind the wire by $KUBECONFIG.
func launchBinary(t *testing.T, ns string, wire *Wire, b blackBox) blackBox {
	t.Helper()
	defer wire.Started()
	proxy := StartProxy(t, wire, harness.RESTConfig(t, localcluster.UserAdmin))
	b.t, b.name = t, fmt.Sprintf("black-box-%d", boxes.Add(1))
	health := harness.UnusedAddress(t)
	words := strings.NewReplacer("{namespace}", ns, "{health}", health, "{metrics}", harness.UnusedAddress(t))
	ready := ""
	for i, argument := range b.arguments {
		if strings.Contains(argument, "{health}") {
			ready = "http://" + health + "/readyz"
		}
		b.arguments[i] = words.Replace(argument)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := harness.Cluster(t).StartProcess(ctx, localcluster.ProcessOptions{
		Name: b.name, Path: b.path, Args: b.arguments, ReadyURL: ready,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + proxy.Kubeconfig}, b.env...),
	})
	t.Cleanup(b.Kill)
	if err != nil {
		t.Fatalf("start %s: %v\n%s", b.path, err, localcluster.LogTail(harness.Cluster(t).LogPath(b.name), 30))
	}
	return b
}

// Kill ends the program as SIGKILL does.
func (b blackBox) Kill() {
	b.t.Helper()
	if err := harness.Cluster(b.t).Kill(b.name); err != nil {
		b.t.Errorf("kill %s: %v", b.name, err)
	}
}

// Stop ends it, too: a program of which nothing is known may take any time over a signal.
func (b blackBox) Stop() { b.Kill() }

// Term asks the program to end, and waits until it has.
func (b blackBox) Term() {
	b.t.Helper()
	ended, err := harness.Cluster(b.t).Exited(b.name)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := harness.Cluster(b.t).Signal(b.name, syscall.SIGTERM); err != nil {
		b.t.Fatalf("signal %s: %v", b.name, err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		b.t.Fatalf("%s does not end", b.name)
	}
}

// ourBox is our own program, driven like any other.
func ourBox(t *testing.T, flags ...string) blackBox {
	t.Helper()
	// Nobody else claims the namespace, and a claim takes its time.
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(unclaimed), 0o600); err != nil {
		t.Fatal(err)
	}
	return blackBox{path: harness.OperatorBinary(t), arguments: append([]string{
		"--restrictedNamespace={namespace}", "--health-probe-bind-address={health}", "--metrics-bind-address={metrics}",
		"--enable-webhooks=false", "--config=" + config,
	}, flags...)}
}

// unclaimed is the configuration of an operator that asks nobody whether it may work in its namespace.
const unclaimed = `apiVersion: config.nvidia.com/v1alpha1
kind: OperatorConfiguration
namespaceScope: {disabled: true}
`

// TestTheOperatorAsABlackBoxIsInterruptedLikeAnyOther drives our own program as it drives those of others: it is started with
// arguments, seen through a proxy and killed.
func TestTheOperatorAsABlackBoxIsInterruptedLikeAnyOther(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, f := range []Fault{{Kind: Crash, Nth: 3}, {Kind: LostResponse, Nth: 2}} {
		r := &Result{Goal: goalOf[f.Kind], Scenario: "black box: create a graph", Fault: string(f.Kind), At: strconv.Itoa(f.Nth)}
		if *binary != "" || !b.isWanted(t, *r) {
			continue // the others do it already
		}
		t.Run(r.Fault, func(t *testing.T) {
			t.Parallel()
			b.record(t, r)
			ns, wire := harness.Namespace(t), NewWire()
			harness.SimulateDeployments(t, ns)
			box := func(wire *Wire) subject { return launchBinary(t, ns, wire, ourBox(t)) }
			victim := box(wire)
			wire.Arm(f)
			create(t, rich(ns))
			if f.Kind == Crash && crashes(wire) {
				victim.Kill()
				wire, r.Faults = NewWire(), len(wire.Fired())
				box(wire)
			}
			scaled(t, ns, 1)
			b.rest(t, ns, wire)
			r.Faults += len(wire.Fired())
		})
	}
}
