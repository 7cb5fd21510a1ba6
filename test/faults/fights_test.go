// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// shortFight is how long somebody does not give up, unless all faults are injected.
	shortFight = 6 * time.Second
	// restoredAtOnce is how many attacks are undone as soon as they are seen.
	restoredAtOnce = 3
	// mostAMinute is how often an object may be written in a minute of a fight. What is told of its owner comes on top.
	mostAMinute = 6
	// toldAMinute is how often that may be: what is fought over and what follows it are written six times each, and each time a child is
	// not ready and ready again.
	toldAMinute = 4 * mostAMinute
	// apart is how long after each other the graphs of a fight are attacked for the first time. Corrections keep their distance from the
	// last of the same object, so that what begins at once comes back at once, every 15 s, and meets the first attacks of another fight.
	apart = 250 * time.Millisecond
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

// TestAFightIsNotEscalated has somebody undo what the operator does as soon as it is done. It measures, so that a full run has
// nothing beside it but other fights, over a few graphs each, and a soak over many. They begin by turns, and so do the graphs of each: it is
// their first attacks that are undone at once, and all of them together would be more than a machine undoes in a second.
func TestAFightIsNotEscalated(t *testing.T) {
	besideOthers(t)
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(fights)) {
		r := &Result{Goal: "L16", Scenario: "a fight over the " + name, Fault: "antagonist"}
		if *full {
			r.Fault, r.Graphs, r.Lasting = fmt.Sprintf("antagonist of %d graphs for %s", *fighting, *fightFor), *fighting, *fightFor
		}
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
	f, all, lasting, opened := fights[name], some(fewVictims), shortFight, func() {}
	if *full {
		all, lasting = some(*fighting), *fightFor
		b.opening.Lock()
		opened = sync.OnceFunc(b.opening.Unlock)
		defer opened()
	}
	s := b.beginMany(t, all, false)
	want := b.rest(t, s.ns, s.wire)
	s.wire.Arm(Fault{})
	for graph, attacks := range b.attackAll(t, s, f.resource, attack{deed: f.deed, lasting: lasting, graphs: all, opened: opened}) {
		r.Faults += len(attacks)
		for i := range restoredAtOnce {
			if took := attacks[i+1].Sub(attacks[i]); took > restoreIn+unlessAlone(slack) {
				t.Errorf("attack %d on %s was undone after %s", i+1, graph, took)
			}
		}
	}
	over := time.Now()
	for _, graph := range all {
		teller := graph + strings.TrimPrefix(f.tells, "chat")
		harness.Eventually(t, patience, "the fight is told", func() (bool, string) {
			says := contested(t, s.ns, teller)
			return says != nil && strings.Contains(says.Message, f.says), fmt.Sprint(teller, " says: ", says)
		})
		r.Seconds = max(r.Seconds, b.restored(t, s.ns, want, keysOf([]string{f.resource}, s.ns, graph)).Sub(over).Seconds())
	}
	if r.Seconds > (laterAtMost + unlessAlone(slack)).Seconds() {
		t.Errorf("the last attack was undone after %.1f s", r.Seconds)
	}
	isFoughtSparingly(t, s.wire)
	isToldSparingly(t, s.wire, toldAMinute)
	b.peace(t, s, want)
}

// isFoughtSparingly bounds how often any object is written in a minute of a fight: what is fought over, and what follows it.
func isFoughtSparingly(t *testing.T, wire *Wire) {
	t.Helper()
	highest := map[bool]int{}
	for object, n := range wire.Busiest(time.Minute) {
		isStatus := strings.HasSuffix(object, "/status")
		highest[isStatus] = max(highest[isStatus], n)
		if n > mostAMinute && !isStatus {
			t.Errorf("%s was written %d times in a minute", object, n)
		}
	}
	t.Logf("at most %d writes of an object and %d of a status in a minute", highest[false], highest[true])
}

// peace waits until nobody tells of a fight any more, which a full run has the time for, and compares.
func (b *bed) peace(t *testing.T, s setting, want Snapshot) {
	t.Helper()
	if !*full {
		return
	}
	harness.Eventually(t, patience, "nobody tells of a fight", func() (bool, string) {
		said := anyContested(t, s.ns)
		return said == "", said
	})
	b.same(t, ending{world: want.Without(counters...)}, ending{world: b.lastRest(t, s.ns, s.wire).Without(counters...)}, s.wire)
}

// attack is a deed that is done to the same child of some graphs for some time.
type attack struct {
	deed    deed
	lasting time.Duration
	graphs  []string
	// opened is called when every graph was attacked as often as is undone at once, nil for nobody who waits for that.
	opened func()
}

// attackAll attacks all graphs side by side, beginning with one after the other, and returns when each had to be attacked.
func (b *bed) attackAll(t *testing.T, s setting, resource string, a attack) map[string][]time.Time {
	t.Helper()
	attacks, errs := make([][]time.Time, len(a.graphs)), make([]error, len(a.graphs))
	var fighting, opening sync.WaitGroup
	opening.Add(len(a.graphs))
	for i, graph := range a.graphs {
		fighting.Go(func() {
			opened := sync.OnceFunc(opening.Done)
			defer opened()
			f := fighter{diary: b.diary, api: harness.Client(t), deed: a.deed, key: keysOf([]string{resource}, s.ns, graph)[0], opened: opened}
			f.waits = time.Duration(i) * apart
			attacks[i], errs[i] = f.fight(t.Context(), written[resource](s.ns, graph), a.lasting)
		})
	}
	opening.Wait()
	if a.opened != nil {
		a.opened()
	}
	fighting.Wait()
	byGraph := map[string][]time.Time{}
	for i, graph := range a.graphs {
		if errs[i] != nil {
			t.Fatalf("attack %s: %v", graph, errs[i])
		}
		byGraph[graph] = attacks[i]
	}
	return byGraph
}

// fighter does a deed as soon as it is undone.
type fighter struct {
	diary *Diary
	api   client.Client
	deed  deed
	key   string
	// opened is called when there were more attacks than are undone at once, and may be called again.
	opened func()
	// waits is how long after the others it begins.
	waits time.Duration
}

// fight returns when the deed had to be done. It goes on until it is a fight.
func (f fighter) fight(ctx context.Context, object client.Object, lasting time.Duration) ([]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, f.waits+lasting+patience)
	defer cancel()
	var attacks []time.Time
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	begin := time.Now().Add(f.waits)
	for end, last := begin.Add(lasting), ""; !time.Now().After(end) || len(attacks) <= restoredAtOnce; {
		select {
		case <-ctx.Done():
			return attacks, fmt.Errorf("%d attacks on %s: %w", len(attacks), f.key, ctx.Err())
		case <-ticker.C:
		}
		if time.Now().Before(begin) {
			continue
		}
		// The diary hears of every change, so that nobody else has to be asked.
		before := f.diary.Version(object.GetNamespace(), f.key)
		if before == "" || before == last {
			continue
		}
		after, err := f.strike(ctx, object, before)
		if apierrors.IsConflict(err) {
			continue // it was changed since, of which the diary will hear
		}
		if client.IgnoreNotFound(err) != nil {
			return attacks, err
		}
		if err == nil && (f.deed.patch == "" || after != before) {
			attacks = append(attacks, time.Now())
		}
		if len(attacks) > restoredAtOnce {
			f.opened()
		}
		last = before
		if after != "" {
			last = after
		}
	}
	return attacks, nil
}

// strike does the deed once to one version of an object, so that what it undoes is known, and returns the version that the object has
// then, empty for none.
func (f fighter) strike(ctx context.Context, object client.Object, version string) (string, error) {
	target, _ := object.DeepCopyObject().(client.Object)
	if f.deed.patch == "" {
		return "", f.api.Delete(ctx, target, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{ResourceVersion: &version})
	}
	patch, err := atVersion(f.deed.patch, version)
	if err != nil {
		return "", err
	}
	err = f.api.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), antagonist)
	return target.GetResourceVersion(), err
}

// atVersion is a merge patch that is refused by every other version of an object.
func atVersion(patch, version string) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal([]byte(patch), &object); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(object, version, "metadata", "resourceVersion"); err != nil {
		return nil, err
	}
	return json.Marshal(object)
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

// anyContested is what any graph or component of a namespace says about a fight, empty for nothing. It asks for all of them at once, so
// that whoever waits for the end of a fight does not slow down the beginning of another.
func anyContested(t *testing.T, ns string) string {
	t.Helper()
	var graphs v1alpha1.DynamoGraphDeploymentList
	var components v1alpha1.DynamoComponentDeploymentList
	for _, list := range []client.ObjectList{&graphs, &components} {
		if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range graphs.Items {
		if c := conditions.Find(graphs.Items[i].Status.Conditions, v1alpha1.ConditionContested); c != nil {
			return c.Message
		}
	}
	for i := range components.Items {
		if c := conditions.Find(components.Items[i].Status.Conditions, v1alpha1.ConditionContested); c != nil {
			return c.Message
		}
	}
	return ""
}

// TestAFightIsToldInAnEvent has somebody scale a Deployment again and again.
func TestAFightIsToldInAnEvent(t *testing.T) {
	t.Parallel()
	b := theBed(t)
	s := b.beginMany(t, []string{"chat"}, false)
	b.attackAll(t, s, "deployments", attack{deed: fights["replicas of a Deployment"].deed, lasting: shortFight, graphs: []string{"chat"}})
	harness.Eventually(t, patience, "an event names the antagonist", func() (bool, string) {
		var all corev1.EventList
		if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(s.ns)); err != nil {
			return false, err.Error()
		}
		return slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.Reason == v1alpha1.ConditionContested && strings.Contains(e.Message, "antagonist keeps changing spec.replicas")
		}), fmt.Sprint(len(all.Items), " events")
	})
}
