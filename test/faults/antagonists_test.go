// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	"strip finalizers":         {goal: "L17", patch: `{"metadata":{"finalizers":null}}`, kinds: []string{components}},
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

// suffer has a deed done to a whole tree, and then deletes it: nothing must be left behind.
func (b *bed) suffer(t *testing.T, d deed, r *Result) {
	t.Helper()
	ns, _, wire := b.beginRich(t)
	want := b.rest(t, ns, wire)
	kinds := d.kinds
	if kinds == nil {
		kinds = children
	}
	wire.Arm(Fault{})
	for _, kind := range kinds {
		d.do(t, written[kind](ns))
		r.Faults++
	}
	done := time.Now()
	if d.foreign {
		b.rest(t, ns, wire)
		// That somebody changed a Deployment is told while its controller has not looked at it.
		wrote := slices.DeleteFunc(wire.Writes(), func(w string) bool { return strings.HasSuffix(w, "/status") })
		if len(wrote) > 0 {
			t.Errorf("it is nobody's business, and yet: %v", wrote)
		}
		b.unchanged(t, ns, d, kinds)
	} else {
		r.Seconds = b.restored(t, ns, want, kinds).Sub(done).Seconds()
		got := b.rest(t, ns, wire)
		if diff := cmp.Diff(want.Without(counters...), got.Without(counters...)); diff != "" {
			t.Errorf("(-before +after):\n%s\nwrites: %v", diff, wire.Writes())
		}
		if limit := limits[d.goal] + unlessAlone(slack); r.Seconds > limit.Seconds() {
			t.Errorf("it took %.1f s", r.Seconds)
		}
	}
	remove(t, rich(ns), metav1.DeletePropagationBackground)
	graphGone(t, ns)
	b.nothingOfOurs(t, ns, b.rest(t, ns, wire))
}

// restored waits until objects of some kinds are as they were, and returns when that was seen.
func (b *bed) restored(t *testing.T, ns string, want Snapshot, kinds []string) time.Time {
	t.Helper()
	var keys []string
	before := Snapshot{}
	for _, kind := range kinds {
		key := kind + "/" + written[kind](ns).GetName()
		keys, before[key] = append(keys, key), want[key]
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
func (b *bed) unchanged(t *testing.T, ns string, d deed, kinds []string) {
	t.Helper()
	for _, kind := range kinds {
		object := written[kind](ns)
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
