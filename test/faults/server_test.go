// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// kills is how often the API server dies in either way in a full run, fewKills in any.
	kills, fewKills = 5, 1
	// churn is how many graphs are on their way when it does.
	churn = 6
	// backIn is how soon all is well after it is back.
	backIn = 10 * time.Second
	// older and doomed are graphs that were there before: a moment before it dies, one is changed and one is deleted.
	older, doomed = "older", "doomed"
)

// TestAnAPIServerThatDiesIsWaitedFor runs beside no other test.
func TestAnAPIServerThatDiesIsWaitedFor(t *testing.T) {
	b := theBed(t)
	times := fewKills
	if *full {
		times = kills
	}
	for i := 1; i <= times; i++ {
		for fault, compacts := range map[string]bool{"API server killed": false, "API server killed, etcd compacted": true} {
			r := &Result{Goal: "L13", Scenario: "graphs come and go", Fault: fault, At: strconv.Itoa(i)}
			if !b.isWanted(t, *r) {
				continue
			}
			t.Run(fmt.Sprint(fault, " ", i), func(t *testing.T) {
				b.record(t, r)
				b.surviveKill(t, disaster{moment: i, compacts: compacts}, r)
			})
		}
	}
}

// disaster is the end of an API server. Later ones happen later.
type disaster struct {
	moment int
	// compacts says that etcd forgets the past meanwhile: whoever wants to go on from what was seen last has to list anew.
	compacts bool
}

// surviveKill kills the API server when a part of the graphs was made, one was just changed and one was just deleted.
func (b *bed) surviveKill(t *testing.T, d disaster, r *Result) {
	t.Helper()
	ns, wire := harness.Namespace(t), NewWire()
	harness.LosesRights(t, ns)
	launch(t, ns, wire)
	wasMade(t, ns, older)
	wasMade(t, ns, doomed)
	makeSome := func(from, to int) {
		for i := from; i < to; i++ {
			create(t, builders.TwoComponents(ns, fmt.Sprintf("g%d", i)).Obj())
		}
	}
	before := 1 + d.moment%churn
	makeSome(0, before)
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: older}, edits["image"])
	remove(t, builders.Graph(ns, doomed).Obj(), metav1.DeletePropagationBackground)
	newest, err := strconv.ParseUint(b.versionOf(t, ns, graphs), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Cluster(t).Kill(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	r.Faults++
	if d.compacts {
		if err := harness.Cluster(t).Compact(t.Context(), newest); err != nil {
			t.Fatal(err)
		}
		r.Faults++
	}
	if err := harness.Cluster(t).Restart(t.Context(), localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	makeSome(before, churn)
	harness.SimulateDeployments(t, ns)
	for i := range churn {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
	harness.AwaitReady(t, ns, older)
	r.Seconds = time.Since(back).Seconds()
	if took := time.Since(back); took > backIn+unlessAlone(slack) {
		t.Errorf("it took %s after the API server was back", took)
	}
	// The garbage collector tries an API server that is away after ever longer pauses, up to a minute. They are not ours, and one that has just
	// started has none.
	if err := harness.Cluster(t).Restart(t.Context(), localcluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"-decode", "-frontend"} {
		gone(t, ns, doomed+component, &appsv1.Deployment{})
	}
	isAsWanted(t, ns, b.lastRest(t, ns, wire))
}

// wasMade makes a graph and waits until it has its Deployments. They are not reported on: the simulator does not outlive an API server.
func wasMade(t *testing.T, ns, graph string) {
	t.Helper()
	create(t, builders.TwoComponents(ns, graph).Obj())
	for _, component := range []string{"-decode", "-frontend"} {
		key := client.ObjectKey{Namespace: ns, Name: graph + component}
		harness.Eventually(t, patience, "there is a Deployment "+key.Name, func() (bool, string) {
			err := harness.Client(t).Get(t.Context(), key, &appsv1.Deployment{})
			return err == nil, fmt.Sprint(err)
		})
	}
}

// isAsWanted checks that the change of a graph has come to its Deployment, and that nothing is left of the graph that was deleted.
func isAsWanted(t *testing.T, ns string, world Snapshot) {
	t.Helper()
	wanted, d := builders.TwoComponents(ns, older).Obj(), &appsv1.Deployment{}
	edits["image"](wanted)
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: older + "-decode"}, d); err != nil {
		t.Fatal(err)
	}
	want := wanted.Spec.Services["Decode"].ExtraPodSpec.MainContainer.Image
	if got := d.Spec.Template.Spec.Containers[0].Image; got != want {
		t.Errorf("%s has the image %s, want %s", d.Name, got, want)
	}
	for key := range world {
		if _, name := split(key); name == doomed || strings.HasPrefix(name, doomed+"-") {
			t.Errorf("%s is left of a graph that was deleted", key)
		}
	}
}
