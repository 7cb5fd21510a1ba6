// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// shortFight is how long somebody does not give up, and longFight how long with -faults.full.
	shortFight, longFight = 6 * time.Second, 80 * time.Second
	// restoredAtOnce is how many attacks are undone as soon as they are seen.
	restoredAtOnce = 3
	// mostAMinute is how often an object may be written in a minute of a fight. What is told of its owner comes on top.
	mostAMinute = 6
	// laterAtMost is how long it takes to put an object right after its antagonist gave up.
	laterAtMost = 15 * time.Second
	// antagonist is under which name antagonists change fields.
	antagonist = client.FieldOwner("antagonist")
)

// told are the members of an object that tell how it is, and not how it should be.
var told = append([]string{"status"}, counters...)

// fights are objects that somebody changes as soon as they are right, and who tells of it.
var fights = map[string]struct {
	resource string
	deed     deed
	// tells is who has the object among its children, says what it says of the antagonist.
	tells, says string
}{
	"replicas of a Deployment": {
		resource: "deployments", deed: deed{patch: `{"spec":{"replicas":7}}`},
		tells: "chat-decode", says: "antagonist keeps changing spec.replicas, which is set here",
	},
	"label of a component": {
		resource: components, deed: deed{patch: `{"metadata":{"labels":{"` + names.LabelGraph + `":"other"}}}`},
		tells: "chat", says: "antagonist keeps changing metadata.labels." + names.LabelGraph,
	},
	"selector of a Service": {
		resource: "services", deed: deed{patch: `{"spec":{"selector":{"` + names.LabelSelector + `":"other"}}}`},
		tells: "chat-frontend", says: "antagonist keeps changing spec.selector",
	},
	"rules of a Role":               {resource: "roles", deed: deed{patch: `{"rules":[]}`}, tells: "chat", says: "keeps changing"},
	"owners of an account":          {resource: "serviceaccounts", deed: deed{patch: `{"metadata":{"ownerReferences":null}}`}, tells: "chat", says: "keeps changing"},
	"mark of ours on a RoleBinding": {resource: "rolebindings", deed: deed{patch: `{"metadata":{"labels":{"` + names.LabelApplied + `":null}}}`}, tells: "chat", says: "taking its labels"},
	"life of a Service":             {resource: "services", tells: "chat-frontend", says: "keeps deleting it"},
	"hash on a Deployment":          {resource: "deployments", deed: deed{patch: `{"metadata":{"annotations":null}}`}, tells: "chat-decode", says: "keeps changing"},
}

// TestAFightIsNotEscalated has somebody undo what the operator does as soon as it is done.
func TestAFightIsNotEscalated(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(fights)) {
		r := &Result{Goal: "L16", Scenario: "a fight over the " + name, Fault: "antagonist"}
		if !isPicked(r.Cell(), oneFightIn) || !b.isWanted(t, *r) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.record(t, r)
			b.fight(t, name, r)
		})
	}
}

// oneFightIn is how many fights there are to one that is run without -faults.full.
const oneFightIn = 3

func (b *bed) fight(t *testing.T, name string, r *Result) {
	t.Helper()
	f := fights[name]
	ns, _, wire := b.beginRich(t)
	want := b.rest(t, ns, wire)
	wire.Arm(Fault{})
	lasting := shortFight
	if *full {
		lasting = longFight
	}
	attacks := attackFor(t, lasting, f.deed, func() client.Object { return written[f.resource](ns) })
	r.Faults = len(attacks)
	over := time.Now()
	for i := range restoredAtOnce {
		if took := attacks[i+1].Sub(attacks[i]); took > restoreIn+slack {
			t.Errorf("attack %d was undone after %s", i+1, took)
		}
	}
	harness.Eventually(t, patience, "the fight is told", func() (bool, string) {
		says := contested(t, ns, f.tells)
		return says != nil && strings.Contains(says.Message, f.says), fmt.Sprint(f.tells, " says: ", says)
	})
	if r.Seconds = b.restored(t, ns, want, []string{f.resource}).Sub(over).Seconds(); r.Seconds > (laterAtMost + slack).Seconds() {
		t.Errorf("the last attack was undone after %.1f s", r.Seconds)
	}
	busiest := wire.Busiest(time.Minute)
	t.Logf("%d attacks in %s, put right for good after %.1f s, writes in the busiest minute: %v", r.Faults, lasting, r.Seconds, busiest)
	for object, n := range busiest {
		most := mostAMinute
		if object != (Call{Resource: f.resource, Name: written[f.resource](ns).GetName()}).Object() {
			most *= 2 // what a component hands on to its children follows every change of it, the right one and the wrong one
		}
		if n > most && !strings.HasSuffix(object, "/status") {
			t.Errorf("%s was written %d times in a minute", object, n)
		}
	}
	b.peace(t, ns, want, wire)
}

// peace waits until nobody tells of a fight any more, which a full run has the time for, and compares.
func (b *bed) peace(t *testing.T, ns string, want Snapshot, wire *Wire) {
	t.Helper()
	if !*full {
		return
	}
	harness.Eventually(t, patience, "nobody tells of a fight", func() (bool, string) {
		for _, name := range []string{"chat", "chat-decode", "chat-frontend"} {
			if c := contested(t, ns, name); c != nil {
				return false, c.Message
			}
		}
		return true, ""
	})
	b.same(t, ending{world: want.Without(counters...)}, ending{world: b.rest(t, ns, wire).Without(counters...)}, wire)
}

// attackFor does a deed as soon as it is undone, and returns when it had to be done. It goes on until it is a fight.
func attackFor(t *testing.T, lasting time.Duration, d deed, target func() client.Object) []time.Time {
	t.Helper()
	var attacks []time.Time
	end := time.Now().Add(lasting)
	isOver := func() bool { return time.Now().After(end) && len(attacks) > restoredAtOnce }
	harness.Eventually(t, lasting+patience, "the end of a fight", func() (bool, string) {
		object := target()
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			return false, err.Error()
		}
		before := object.GetResourceVersion()
		if err != nil || object.GetDeletionTimestamp() != nil {
			return isOver(), ""
		}
		if d.patch == "" {
			err = harness.Client(t).Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		} else {
			err = harness.Client(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(d.patch)), antagonist)
		}
		if client.IgnoreNotFound(err) != nil {
			return false, err.Error()
		}
		if d.patch == "" || object.GetResourceVersion() != before {
			attacks = append(attacks, time.Now())
		}
		return isOver(), fmt.Sprint(len(attacks), " attacks")
	})
	return attacks
}

// contested is what a graph or component says about a fight, nil for nothing.
func contested(t *testing.T, ns, name string) *metav1.Condition {
	t.Helper()
	key := client.ObjectKey{Namespace: ns, Name: name}
	g, c := &v1alpha1.DynamoGraphDeployment{}, &v1alpha1.DynamoComponentDeployment{}
	if err := harness.Client(t).Get(t.Context(), key, g); err == nil {
		return conditions.Find(g.Status.Conditions, v1alpha1.ConditionContested)
	}
	if err := harness.Client(t).Get(t.Context(), key, c); err != nil {
		t.Fatal(err)
	}
	return conditions.Find(c.Status.Conditions, v1alpha1.ConditionContested)
}

// TestAFightIsToldInAnEvent has somebody scale a Deployment again and again.
func TestAFightIsToldInAnEvent(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	ns, _, _ := b.beginRich(t)
	attackFor(t, shortFight, fights["replicas of a Deployment"].deed, func() client.Object { return written["deployments"](ns) })
	harness.Eventually(t, patience, "an event names the antagonist", func() (bool, string) {
		var all corev1.EventList
		if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(ns)); err != nil {
			return false, err.Error()
		}
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.Reason == v1alpha1.ConditionContested && strings.Contains(e.Message, "antagonist keeps changing spec.replicas")
		}), fmt.Sprint(len(all.Items), " events")
	})
}
