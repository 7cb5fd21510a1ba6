// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package memo

import (
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

func graph() *v1alpha1.DynamoGraphDeployment {
	return &v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "g", UID: "1", Generation: 1, ResourceVersion: "10",
		Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
	}}
}

func TestAValueIsComputedAgainOnlyWhenWhatItDependsOnChanged(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change        func(*v1alpha1.DynamoGraphDeployment)
		circumstances string
		again         bool
	}{
		"nothing":       {func(*v1alpha1.DynamoGraphDeployment) {}, "", false},
		"a status":      {func(g *v1alpha1.DynamoGraphDeployment) { g.ResourceVersion, g.Status.State = "11", "x" }, "", false},
		"the spec":      {func(g *v1alpha1.DynamoGraphDeployment) { g.Generation = 2 }, "", true},
		"a label":       {func(g *v1alpha1.DynamoGraphDeployment) { g.Labels["a"] = "c" }, "", true},
		"an annotation": {func(g *v1alpha1.DynamoGraphDeployment) { g.Annotations["e"] = "f" }, "", true},
		"another one":   {func(g *v1alpha1.DynamoGraphDeployment) { g.UID = "2" }, "", true},
		"circumstances": {func(*v1alpha1.DynamoGraphDeployment) {}, "a claim is missing", true},
	} {
		m := New[int]()
		computed := 0
		compute := func() int { computed++; return computed }
		m.Get(graph(), "", compute)
		changed := graph()
		tc.change(changed)
		m.Get(changed, tc.circumstances, compute)
		if (computed == 2) != tc.again {
			t.Errorf("after a change of %s it was computed %d times", name, computed)
		}
	}
}

func TestAForgottenValueTellsWhoseItWas(t *testing.T) {
	t.Parallel()
	m := New[int]()
	key := client.ObjectKeyFromObject(graph())
	if uid := m.Forget(key); uid != "" {
		t.Errorf("an unknown object had UID %q", uid)
	}
	m.Get(graph(), "", func() int { return 1 })
	if was, forgotten := m.UID(key), m.Forget(key); was != "1" || forgotten != "1" {
		t.Errorf("UIDs %q and %q, want 1", was, forgotten)
	}
	if uid := m.UID(key); uid != "" {
		t.Errorf("a forgotten object still has UID %q", uid)
	}
}

func TestOnlySoManyValuesAreKeptButEveryObjectIsKnown(t *testing.T) {
	t.Parallel()
	m := New[int]()
	computed := 0
	look := func(i int) {
		g := graph()
		g.Name = strconv.Itoa(i)
		m.Get(g, "", func() int { computed++; return i })
	}
	for i := range room + 1 {
		look(i)
	}
	computed = 0
	look(room)
	if computed != 0 {
		t.Error("the last value was dropped")
	}
	look(0)
	if computed != 1 {
		t.Error("more values are kept than there is room for")
	}
	if uid := m.UID(types.NamespacedName{Namespace: "ns", Name: "1"}); uid != "1" {
		t.Errorf("an object without a value has UID %q", uid)
	}
}
