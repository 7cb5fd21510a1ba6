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

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// restoreIn is how soon a deed is undone, and rebuildIn how soon what was stripped is whole again.
	restoreIn, rebuildIn = time.Second, 2 * time.Second
	// slack is what a machine adds to that on which other tests run at the same time.
	slack = 2 * time.Second
)

// children are the kinds of the rich graph's tree that are kept as rendered.
var children = []string{components, "deployments", "services", "serviceaccounts", "roles", "rolebindings"}

// deed is what somebody does to all children of a graph.
type deed struct {
	goal string
	// patch is a merge patch, empty for a deletion.
	patch string
	// kinds are the resources it is done to, nil for all children.
	kinds []string
	// foreign says that it is nobody's business and has to stay.
	foreign bool
	// etcd says that the graphs are found in etcd, for the sake of which components have a finalizer.
	etcd bool
}

var deeds = map[string]deed{
	"change a label": {
		goal: "L16", patch: `{"metadata":{"labels":{"` + names.LabelGraph + `":"other"}}}`,
		kinds: []string{components, "deployments"},
	},
	"scale behind our back": {goal: "L16", patch: `{"spec":{"replicas":7}}`, kinds: []string{"deployments"}},
	"change a selector": {
		goal: "L16", patch: `{"spec":{"selector":{"` + names.LabelSelector + `":"other"}}}`,
		kinds: []string{"services"},
	},
	"take rules away":    {goal: "L16", patch: `{"rules":[]}`, kinds: []string{"roles"}},
	"take subjects away": {goal: "L16", patch: `{"subjects":[]}`, kinds: []string{"rolebindings"}},
	"add a label and a note": {
		// What is laid on a component is handed on to its children, so it is not among them.
		goal: "L16", patch: `{"metadata":{"labels":{"example.com/team":"a"},"annotations":{"example.com/note":"b"}}}`,
		kinds: []string{"deployments", "services", "serviceaccounts", "roles", "rolebindings"}, foreign: true,
	},
	"add a field of their own": {goal: "L16", patch: `{"spec":{"minReadySeconds":3}}`, kinds: []string{"deployments"}, foreign: true},
	"delete children":          {goal: "L16"},
	"strip our mark":           {goal: "L17", patch: `{"metadata":{"labels":{"` + names.LabelApplied + `":null}}}`},
	"strip all labels":         {goal: "L17", patch: `{"metadata":{"labels":null}}`},
	"strip the hash":           {goal: "L17", patch: `{"metadata":{"annotations":null}}`},
	"strip owners":             {goal: "L17", patch: `{"metadata":{"ownerReferences":null}}`},
	"strip owners and labels":  {goal: "L17", patch: `{"metadata":{"ownerReferences":null,"labels":null}}`},
	"strip finalizers":         {goal: "L17", patch: `{"metadata":{"finalizers":null}}`, kinds: []string{components}, etcd: true},
}

// TestWhatAntagonistsDoIsUndoneAndWhatIsTheirsIsLeft measures, so that a full run has it run beside no other test.
func TestWhatAntagonistsDoIsUndoneAndWhatIsTheirsIsLeft(t *testing.T) {
	besideOthers(t)
	b := theBed(t)
	for _, name := range slices.Sorted(maps.Keys(deeds)) {
		r := &Result{Goal: deeds[name].goal, Scenario: name, Fault: "antagonist"}
		if !b.isWanted(t, *r) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			besideOthers(t)
			b.record(t, r)
			b.suffer(t, deeds[name], r)
		})
	}
}

// limits are how soon a deed of a goal is undone.
var limits = map[string]time.Duration{"L16": restoreIn, "L17": rebuildIn}

// besideOthers lets a test run at the same time as others, unless all faults are injected: then it is to be measured.
func besideOthers(t *testing.T) {
	t.Helper()
	if !*full {
		t.Parallel()
	}
}

// unlessAlone is what a measured test is granted where it does not run alone.
func unlessAlone(d time.Duration) time.Duration {
	if *full {
		return 0
	}
	return d
}

// victims are how many graphs a deed is done to in a full run, by its goal, and fewVictims how many in any. They share an operator.
var victims = map[string]int{"L16": 20, "L17": 30}

const (
	fewVictims = 2
	// atATime is how many of them are attacked at the same time.
	atATime = 4
)

// howMany is how many graphs a goal asks for.
func howMany(goal string) []string {
	if *full {
		return some(victims[goal])
	}
	return some(fewVictims)
}

// some are the names of so many graphs.
func some(n int) []string {
	all := []string{"chat"}
	for i := 1; i < n; i++ {
		all = append(all, fmt.Sprint("chat", i))
	}
	return all
}

// suffer has a deed done to whole trees, and then deletes them: nothing must be left behind.
func (b *bed) suffer(t *testing.T, d deed, r *Result) {
	t.Helper()
	all := howMany(d.goal)
	s := b.beginMany(t, all, d.etcd)
	want, hashes := b.rest(t, s.ns, s.wire), hashesOf(t, s.ns, d.on(), all)
	s.wire.Arm(Fault{})
	turns := make(chan struct{}, atATime)
	took := make([]time.Duration, len(all))
	t.Run("graphs", func(t *testing.T) {
		for i, graph := range all {
			t.Run(graph, func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				for _, kind := range d.on() {
					d.do(t, written[kind](s.ns, graph))
				}
				done := time.Now()
				if !d.foreign {
					took[i] = b.restored(t, s.ns, want, keysOf(d.on(), s.ns, graph)).Sub(done)
				}
			})
		}
	})
	r.Faults, r.Seconds = len(all)*len(d.on()), slices.Max(took).Seconds()
	got := b.lastRest(t, s.ns, s.wire)
	if limit := limits[d.goal] + unlessAlone(slack); r.Seconds > limit.Seconds() {
		t.Errorf("it took %.1f s", r.Seconds)
	}
	if d.foreign {
		b.isLeftAlone(t, s, d, all)
	} else {
		diff := cmp.Diff(want.Without(counters...), got.Without(counters...))
		if d.patch != "" { // what was deleted and made again has another owner
			diff += cmp.Diff(hashes, hashesOf(t, s.ns, d.on(), all))
		}
		if diff != "" {
			t.Errorf("(-before +after):\n%s\nwrites: %v", diff, s.wire.Writes())
		}
	}
	isToldSparingly(t, s.wire, mostAMinute)
	b.endAll(t, s, all)
}

// isToldSparingly bounds how often anything is told of one object in a minute.
func isToldSparingly(t *testing.T, wire *Wire, most int) {
	t.Helper()
	for object, n := range wire.Busiest(time.Minute) {
		if strings.HasSuffix(object, "/status") && n > most {
			t.Errorf("%s was written %d times in a minute", object, n)
		}
	}
}

// endAll deletes all graphs. Nothing of them may be left, in the cluster or in etcd.
func (b *bed) endAll(t *testing.T, s setting, all []string) {
	t.Helper()
	for _, graph := range all {
		remove(t, richAs(s.ns, graph), metav1.DeletePropagationBackground)
	}
	for _, graph := range all {
		gone(t, s.ns, graph, &v1alpha1.DynamoGraphDeployment{})
	}
	b.nothingOfOurs(t, s.ns, b.lastRest(t, s.ns, s.wire))
	if s.etcd.etcd == nil {
		return
	}
	for _, key := range s.etcd.etcd.Keys() {
		if strings.Contains(key, "-chat") {
			t.Errorf("%s is left in etcd", key)
		}
	}
}

// setting is a namespace with several rich graphs and one operator behind a wire.
type setting struct {
	ns   string
	etcd keys
	wire *Wire
}

func (b *bed) beginMany(t *testing.T, all []string, inEtcd bool) setting {
	t.Helper()
	s := setting{ns: harness.Namespace(t), wire: NewWire()}
	t.Cleanup(func() { b.diary.Forget(s.ns) })
	harness.SimulateDeployments(t, s.ns)
	s.etcd = startEtcd(t, scenario{etcd: inEtcd}, s.ns)
	for _, graph := range all {
		s.etcd.put(names.DiscoveryKeys(s.ns+"-"+graph, "Decode") + "generate:1")
	}
	launch(t, s.ns, s.wire, s.etcd.flags()...)
	for _, graph := range all {
		create(t, richAs(s.ns, graph))
	}
	allReady(t, s.ns, len(all))
	b.rest(t, s.ns, s.wire)
	return s
}

// isLeftAlone checks that what is somebody else's stays as it is.
func (b *bed) isLeftAlone(t *testing.T, s setting, d deed, all []string) {
	t.Helper()
	// That somebody changed a Deployment is told while its controller has not looked at it.
	wrote := slices.DeleteFunc(s.wire.Writes(), func(w string) bool { return strings.HasSuffix(alike(w), "/status") })
	if len(wrote) > 0 {
		t.Errorf("it is nobody's business, and yet: %v", wrote)
	}
	for _, graph := range all {
		b.unchanged(t, s.ns, d, graph)
	}
}

// on are the resources a deed is done to.
func (d deed) on() []string {
	if d.kinds == nil {
		return children
	}
	return d.kinds
}

// hashesOf are the hashes of what was applied, which snapshots leave out because they differ between namespaces.
func hashesOf(t *testing.T, ns string, kinds, all []string) map[string]string {
	t.Helper()
	hashes := map[string]string{}
	for _, graph := range all {
		for _, kind := range kinds {
			object := written[kind](ns, graph)
			if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			hashes[kind+"/"+object.GetName()] = object.GetAnnotations()[names.AnnotationAppliedHash]
			if hashes[kind+"/"+object.GetName()] == "" {
				t.Errorf("%s %s has no hash", kind, object.GetName())
			}
		}
	}
	return hashes
}

// keysOf are the keys of some children of a graph.
func keysOf(kinds []string, ns, graph string) []string {
	var all []string
	for _, kind := range kinds {
		all = append(all, kind+"/"+written[kind](ns, graph).GetName())
	}
	return all
}

// restored waits until some objects are as they were, and returns when that was seen.
func (b *bed) restored(t *testing.T, ns string, want Snapshot, keys []string) time.Time {
	t.Helper()
	before := Snapshot{}
	for _, key := range keys {
		before[key] = want[key]
	}
	harness.Eventually(t, patience, "what was done is undone", func() (bool, string) {
		now, err := b.world.Some(t.Context(), ns, keys...)
		if err != nil {
			return false, err.Error()
		}
		diff := cmp.Diff(before.Without(told...), now.Without(told...))
		return diff == "", diff
	})
	return time.Now()
}

func (d deed) do(t *testing.T, object client.Object) {
	t.Helper()
	if d.patch == "" {
		// What went with its owner, which was deleted before it, is gone as well.
		err := harness.Client(t).Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return
	}
	if err := harness.Client(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(d.patch)), antagonist); err != nil {
		t.Fatalf("patch %s: %v", object.GetName(), err)
	}
}

// unchanged checks that a deed still holds: doing it again changes nothing.
func (b *bed) unchanged(t *testing.T, ns string, d deed, graph string) {
	t.Helper()
	for _, kind := range d.on() {
		object := written[kind](ns, graph)
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		version := object.GetResourceVersion()
		d.do(t, object)
		if object.GetResourceVersion() != version {
			t.Errorf("%s %s did not keep what was somebody else's", kind, object.GetName())
		}
	}
}

// nothingOfOurs checks that nothing with our mark outlives its graph.
func (b *bed) nothingOfOurs(t *testing.T, ns string, world Snapshot) {
	t.Helper()
	for key, object := range world {
		labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
		if labels[names.LabelApplied] != nil {
			t.Errorf("%s is left in %s", key, ns)
		}
	}
}
