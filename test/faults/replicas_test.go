// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// rolled is how many graphs change while their leader ends, in a full run and in any, and moments how often it does.
	rolled, fewRolled   = 100, 4
	moments, fewMoments = 10, 1
	// takeover is how long the Lease of a leader that was killed keeps the others out, and handover how long it takes one that
	// was told to end to hand it on.
	takeover, handover = 17 * time.Second, 2500 * time.Millisecond
	// doneIn is how soon a successor is done after its first write, or after the last change that it is told of.
	doneIn = 5 * time.Second

	election = "faults"
)

// replica is one of several processes of the operator.
type replica struct {
	blackBox
	wire *Wire
}

func startReplica(t *testing.T, ns string) replica {
	t.Helper()
	wire := NewWire()
	return replica{wire: wire, blackBox: launchBinary(t, ns, wire, ourBox(t,
		"--leader-elect", "--leader-election-id="+election, "--leader-election-namespace="+ns))}
}

// ends are the ways in which a leader ends.
var ends = map[string]struct {
	goal  string
	end   func(replica)
	limit time.Duration
}{
	"leader killed":      {"L7", func(r replica) { r.Kill() }, takeover},
	"leader told to end": {"L8", func(r replica) { r.Term() }, handover},
}

// TestAnotherReplicaGoesOnWithARollout measures, so that a full run has it run beside no other test.
func TestAnotherReplicaGoesOnWithARollout(t *testing.T) {
	besideOthers(t)
	b := theBed(t)
	graphs, times := fewRolled, fewMoments
	if *full {
		graphs, times = rolled, moments
	}
	for how, end := range ends {
		r := &Result{Goal: end.goal, Scenario: fmt.Sprintf("rollout of %d graphs", graphs), Fault: how}
		if *binary != "" || takesLong() && end.limit > handover || !b.isWanted(t, *r) {
			continue
		}
		t.Run(how, func(t *testing.T) {
			besideOthers(t)
			b.record(t, r)
			s := b.startShift(t, graphs)
			for moment := 1; moment <= times; moment++ {
				s.pass(how, turn{moment: moment, of: times}, r)
			}
		})
	}
}

// shift is a namespace with graphs, and two replicas of which one leads.
type shift struct {
	t               *testing.T
	bed             *bed
	ns              string
	graphs          int
	leader, standby replica
}

func (b *bed) startShift(t *testing.T, graphs int) *shift {
	t.Helper()
	s := &shift{t: t, bed: b, ns: harness.Namespace(t), graphs: graphs}
	t.Cleanup(func() { b.diary.Forget(s.ns) })
	harness.SimulateDeployments(t, s.ns)
	s.leader = startReplica(t, s.ns)
	harness.Eventually(t, patience, "a leader", func() (bool, string) {
		lease := &coordinationv1.Lease{}
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: election}, lease)
		return err == nil && lease.Spec.HolderIdentity != nil, fmt.Sprint(err)
	})
	s.standby = startReplica(t, s.ns)
	for i := range graphs {
		create(t, builders.Graph(s.ns, fmt.Sprintf("g%d", i)).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj())
	}
	allReady(t, s.ns, graphs)
	return s
}

// turn is one of several ends of a leader. Later ones are later in a rollout.
type turn struct{ moment, of int }

// pass ends the leader in the middle of a rollout.
func (s *shift) pass(how string, at turn, r *Result) {
	t := s.t
	t.Helper()
	want := s.bed.rest(t, s.ns).Without(rolledFields...)
	before, made := s.generations(), s.bed.lives(s.ns)
	s.standby.wire.Arm(Fault{})
	first := s.graphs * at.moment / (at.of + 1)
	s.roll(0, first, at.moment)
	ended := time.Now()
	ends[how].end(s.leader)
	r.Faults++
	s.roll(first, s.graphs, at.moment)
	asked := time.Now()
	s.done(at.moment)
	done, began := time.Now(), s.standby.wire.FirstWrite()
	// Nobody is done before the user is.
	known := began
	if asked.After(known) {
		known = asked
	}
	t.Logf("the successor began after %s and was done %s after it knew everything", began.Sub(ended).Round(time.Millisecond), done.Sub(known).Round(time.Millisecond))
	r.Seconds = max(r.Seconds, done.Sub(ended).Seconds())
	if took := began.Sub(ended); began.IsZero() || took > ends[how].limit+unlessAlone(slack) {
		t.Errorf("the successor began after %s", took)
	}
	if took := done.Sub(known); took > doneIn+unlessAlone(slack) {
		t.Errorf("the successor was done %s after it knew everything", took)
	}
	s.leader, s.standby = s.standby, startReplica(t, s.ns)
	if after := s.generations(); after != before+int64(s.graphs) {
		t.Errorf("%d changes of %d Deployments", after-before, s.graphs)
	}
	if diff := cmp.Diff(want, s.bed.rest(t, s.ns, s.leader.wire, s.standby.wire).Without(rolledFields...)) + cmp.Diff(made, s.bed.lives(s.ns)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

// rolledFields are what a rollout changes.
var rolledFields = append([]string{"image"}, counters...)

func image(moment int) string { return fmt.Sprintf("registry.example.com/rolled:%d", moment) }

// roll gives some graphs the image of a moment.
func (s *shift) roll(from, to, moment int) {
	s.t.Helper()
	for i := from; i < to; i++ {
		harness.Change(s.t, client.ObjectKey{Namespace: s.ns, Name: fmt.Sprintf("g%d", i)}, func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Frontend"].ExtraPodSpec.MainContainer.Image = image(moment)
		})
	}
}

// done waits until every Deployment has the image of a moment and every graph is ready with it.
func (s *shift) done(moment int) {
	s.t.Helper()
	harness.Eventually(s.t, patience, "all are rolled out", func() (bool, string) {
		var all appsv1.DeploymentList
		if err := harness.Client(s.t).List(s.t.Context(), &all, client.InNamespace(s.ns)); err != nil {
			return false, err.Error()
		}
		for _, d := range all.Items {
			if d.Spec.Template.Spec.Containers[0].Image != image(moment) {
				return false, d.Name
			}
		}
		return len(all.Items) == s.graphs, fmt.Sprint(len(all.Items))
	})
	allReady(s.t, s.ns, s.graphs)
}

// generations is how often the Deployments were changed.
func (s *shift) generations() int64 {
	s.t.Helper()
	var all appsv1.DeploymentList
	if err := harness.Client(s.t).List(s.t.Context(), &all, client.InNamespace(s.ns)); err != nil {
		s.t.Fatal(err)
	}
	var sum int64
	for _, d := range all.Items {
		sum += d.Generation
	}
	return sum
}

// allReady waits until so many graphs are ready in their latest generation, with one question at a time for all of them.
func allReady(t *testing.T, ns string, graphs int) {
	t.Helper()
	harness.Eventually(t, crowdPatience, "all graphs are ready", func() (bool, string) {
		var all v1alpha1.DynamoGraphDeploymentList
		if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			return false, err.Error()
		}
		ready := 0
		for _, g := range all.Items {
			c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
			if c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == g.Generation {
				ready++
			}
		}
		return ready == graphs, fmt.Sprintf("%d of %d", ready, graphs)
	})
}
