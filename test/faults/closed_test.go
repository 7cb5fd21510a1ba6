// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// toldOf are stories in which something becomes of a kind, for every kind that some story writes and the operator watches.
var toldOf = map[string]string{
	graphs:                   "change an image",
	components:               "delete a component of a graph",
	adapters:                 "scale by adapter",
	"deployments":            "delete a Deployment and a Service",
	"services":               "delete a Deployment and a Service",
	"serviceaccounts":        "give up discovery through Kubernetes",
	"roles":                  "give up discovery through Kubernetes",
	"rolebindings":           "give up discovery through Kubernetes",
	"persistentvolumeclaims": "retain a claim",
	"ingresses":              "stop publishing a frontend and drop its budget",
	"poddisruptionbudgets":   "stop publishing a frontend and drop its budget",
	"dynamomodels":           "load an adapter from another source",
	"leaderworkersets":       "more groups of nodes",
	"podcliquesets":          "scale on Grove",
	"podgroups":              "from gangs of nodes to one node",
	"configmaps":             "take the endpoint picker away",
	"inferencepools":         "take the endpoint picker away",
	"virtualservices":        "stop publishing a frontend in a mesh",
}

// endsOfWatches are the ways in which a watch ends before its time.
var endsOfWatches = map[string]Blindness{"closed watch of ": {Closed: true}, "expired watch of ": {Missed: true}}

// oneEndIn is how many kinds there are to one whose watch ends without -faults.full.
const oneEndIn = 18

func TestAWatchThatEndsMissesNothing(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, resource := range slices.Sorted(maps.Keys(toldOf)) {
		for way, blindness := range endsOfWatches {
			r := &Result{Goal: "L5", Scenario: toldOf[resource], Fault: way + resource}
			if *binary != "" && scenarios[r.Scenario].isOurs() || !isPicked(r.Cell(), oneEndIn) || !b.isWanted(t, *r) {
				continue
			}
			t.Run(r.Fault, func(t *testing.T) {
				t.Parallel()
				b.record(t, r)
				want := b.reference(t, "story: "+r.Scenario, func() ending { return b.tell(t, scenarios[r.Scenario], Fault{}, nil) })
				blindness.Resource = resource
				if diff := want.differs(b.tellUnseen(t, scenarios[r.Scenario], blindness, r)); diff != "" {
					t.Errorf("(-undisturbed +after the end of a watch):\n%s", diff)
				}
			})
		}
	}
}

// tellUnseen tells a story to an operator whose watch of a kind ends when that kind first moves.
func (b *bed) tellUnseen(t *testing.T, s scenario, blindness Blindness, r *Result) ending {
	t.Helper()
	ns, wire := harness.Namespace(t), NewWire(s.apis...)
	t.Cleanup(func() { b.diary.Forget(ns) })
	s.simulate(t, ns)
	etcd := startEtcd(t, s, ns)
	workers := startCrew(t, s, ns)
	launchWith(t, ns, wire, workers.reach(t, wire), append(etcd.flags(), s.flagsIn(ns)...)...)
	s.before(t, ns)
	b.rest(t, ns, wire)
	release := wire.Blind(blindness)
	t.Cleanup(release)
	s.during(t, ns)
	harness.Eventually(t, patience, "a watch ends", func() (bool, string) {
		return wire.Deceived(blindness.Resource) > 0, fmt.Sprint("nothing of ", blindness.Resource, " came")
	})
	r.Faults = wire.Deceived(blindness.Resource)
	if !blindness.Closed {
		release() // nothing is told before
	}
	hasHeard(t, wire, blindness.Resource)
	s.ended(t, ns)
	world := workers.addTo(etcd.addTo(b.lastRest(t, ns, wire)))
	return ending{world: world, lives: b.lives(ns)}
}
