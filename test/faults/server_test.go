// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strconv"
	"testing"
	"time"

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

// surviveKill kills the API server when a part of the graphs was made.
func (b *bed) surviveKill(t *testing.T, d disaster, r *Result) {
	t.Helper()
	ns, wire := harness.Namespace(t), NewWire()
	harness.LosesRights(t, ns)
	launch(t, ns, wire)
	make := func(from, to int) {
		for i := from; i < to; i++ {
			create(t, builders.TwoComponents(ns, fmt.Sprintf("g%d", i)).Obj())
		}
	}
	before := 1 + d.moment%churn
	make(0, before)
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
	make(before, churn)
	harness.SimulateDeployments(t, ns)
	for i := range churn {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
	r.Seconds = time.Since(back).Seconds()
	if took := time.Since(back); took > backIn+unlessAlone(slack) {
		t.Errorf("it took %s after the API server was back", took)
	}
	b.lastRest(t, ns, wire)
}
