// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/test/admission/cases"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// brokenChanges is how many changes are tried on each broken object, besides mending it.
const brokenChanges = 5

// outcomes counts how changes of broken objects were judged.
type outcomes struct{ taken, refused, stricter int }

// TestChangesOfBrokenObjectsAreJudgedAlikeByAll starts from objects that no definition would let in any more. Here the judges may
// differ in one way: the API server forgives what stands in a part of an object that a change leaves alone, our rules forgive
// every problem that was there before in the same words. So ours never refuse what it takes.
func TestChangesOfBrokenObjectsAreJudgedAlikeByAll(t *testing.T) {
	t.Parallel()
	every, bases := all(t)
	var seen outcomes
	stored := otherGroup("broken.example.com").store(t)
	for n, name := range slices.Sorted(maps.Keys(stored)) {
		object := stored[name]
		seen.judge(t, name+", as it is", object, object.Object["spec"])
		seen.judge(t, name+", mended", object, bases[object.GetKind()]["spec"])
		same := slices.DeleteFunc(slices.Clone(every), func(c cases.Case) bool {
			return c.Kind != object.GetKind() || c.Old != nil || c.Change["spec"] == nil
		})
		random := rand.New(rand.NewPCG(uint64(n), 2))
		for range brokenChanges {
			c := same[random.IntN(len(same))]
			changed := cases.Merge(object.Object, c.Change)
			seen.judge(t, fmt.Sprintf("%s, then %s (%s)", name, c.Rule, c.Name), object, changed["spec"])
		}
	}
	t.Logf("%d changes were taken by all, %d refused by all, %d refused by the API server alone", seen.taken, seen.refused, seen.stricter)
	if seen.taken < 50 || seen.refused < 50 || seen.stricter == 0 {
		t.Errorf("too little was seen: %+v", seen)
	}
}

// judge compares all judges of a change of a stored object.
func (o *outcomes) judge(t *testing.T, name string, object *unstructured.Unstructured, spec any) {
	t.Helper()
	changed := &unstructured.Unstructured{Object: placed(t, map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(), "metadata": object.Object["metadata"], "spec": spec,
	}, object.GetNamespace())}
	server := causes(t, harness.Client(t).Update(t.Context(), changed.DeepCopy(), client.DryRunAll))
	before, after := ownGroup(object.Object), ownGroup(changed.Object)
	definition(t, after).Default(after)
	process := definition(t, after).Update(t.Context(), after, before).All()
	for _, text := range texts(process) {
		if !slices.Contains(server, text) {
			t.Errorf("%s: the code in our process says %q, the API server %q", name, text, server)
		}
	}
	if (len(server) > 0) != (len(process) > 0) {
		t.Errorf("%s: the API server says %q, its code in our process %q", name, server, texts(process))
	}
	verdict := admission.Judge(object.GetKind(), typed(t, before), typed(t, after), admission.Circumstances{})
	rules := ours(verdict.Errors)
	switch {
	case len(server) == 0 && len(rules) == 0:
		o.taken++
	case len(server) > 0 && len(rules) > 0:
		o.refused++
	case len(server) == 0:
		t.Errorf("%s: the API server takes it, and our rules do not: %v", name, verdict.Errors)
	default:
		o.stricter++
		forgiven(t, name, before, after)
	}
}

// forgiven fails unless the object was wrong before in a way in which it still is.
func forgiven(t *testing.T, name string, before, after map[string]any) {
	t.Helper()
	was := map[string]bool{}
	for _, err := range refusals(t, before) {
		was[err.Error()] = true
	}
	for _, err := range refusals(t, after) {
		if was[err.Error()] {
			return
		}
	}
	t.Errorf("%s: the API server refuses what our rules have nothing to say about", name)
}

// ownGroup is an object of another group as one of ours.
func ownGroup(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	object["apiVersion"] = v1alpha1.GroupVersion.String()
	return object
}
