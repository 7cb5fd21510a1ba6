// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

var born = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// adapter wants three replicas of service Decode of graph chat.
func adapter(name string) *adapterObject {
	return &adapterObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 2, CreationTimestamp: born},
		Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
			Replicas: 3, DGDRef: v1alpha1.DynamoGraphDeploymentServiceRef{Name: "chat", ServiceName: "Decode"},
		},
	}
}

func chat() *v1alpha1.DynamoGraphDeployment {
	g := builders.TwoComponents("ns", "chat").Change("Decode", builders.Replicas(2)).Obj()
	g.UID = "chat"
	return g
}

// made gives an adapter the owner that a graph gives it.
func made(a *adapterObject, graph, uid string) *adapterObject {
	a.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindDynamoGraphDeployment, Name: graph, UID: types.UID(uid), Controller: new(true),
	}}
	return a
}

func TestAnAdapterScalesItsServiceOrSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*adapterObject, *v1alpha1.DynamoGraphDeployment)
		gone   bool
		has    int32
		reason string
		says   []string
	}{
		"the graph's number is found": {has: 2},
		"unset means one": {
			change: func(_ *adapterObject, g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = nil }, has: 1,
		},
		"no graph": {gone: true, reason: conditions.GraphNotFound, says: []string{`"chat"`}},
		"no service": {
			change: func(a *adapterObject, _ *v1alpha1.DynamoGraphDeployment) { a.Spec.DGDRef.ServiceName = "Prefill" },
			reason: conditions.ServiceNotFound, says: []string{`"chat"`, `"Prefill"`, "Decode, Frontend"},
		},
		"a service in other letters": {
			change: func(a *adapterObject, _ *v1alpha1.DynamoGraphDeployment) { a.Spec.DGDRef.ServiceName = "decode" },
			reason: conditions.ServiceNotFound, says: []string{`"decode"`, "Decode, Frontend"},
		},
		"a service without a description": {
			change: func(_ *adapterObject, g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"] = nil },
			reason: conditions.ServiceNotFound, says: []string{`"Decode"`, "are: Frontend"},
		},
		"less than nothing": {
			change: func(a *adapterObject, _ *v1alpha1.DynamoGraphDeployment) { a.Spec.Replicas = -1 },
			reason: conditions.ValidationFailed, says: []string{"spec.replicas", "-1", "negative"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, seen := adapter("a"), Seen{Graph: chat()}
			if tc.change != nil {
				tc.change(a, seen.Graph)
			}
			if tc.gone {
				seen.Graph = nil
			}
			got := Desired(a, admission.ScalingAdapter(a), seen)
			if got.Reason != tc.reason || (got.Problem == "") != (tc.reason == "") || got.Has != tc.has || (got.Service != nil) != (tc.reason == "") {
				t.Errorf("got %q (%q), graph has %d, want %q and %d", got.Reason, got.Problem, got.Has, tc.reason, tc.has)
			}
			for _, text := range tc.says {
				if !strings.Contains(got.Problem, text) {
					t.Errorf("problem %q does not say %s", got.Problem, text)
				}
			}
		})
	}
}

func TestOfSeveralAdaptersTheOldestHasTheService(t *testing.T) {
	t.Parallel()
	older := func(a *adapterObject) { a.CreationTimestamp = metav1.NewTime(born.Add(-time.Hour)) }
	younger := func(a *adapterObject) { a.CreationTimestamp = metav1.NewTime(born.Add(time.Hour)) }
	for name, tc := range map[string]struct {
		others map[string]func(*adapterObject)
		want   string // who has the service, empty for the adapter itself
	}{
		"alone":                  {},
		"younger":                {map[string]func(*adapterObject){"a": younger}, ""},
		"older":                  {map[string]func(*adapterObject){"z": older}, "z"},
		"equally old, later":     {map[string]func(*adapterObject){"z": func(*adapterObject) {}}, ""},
		"equally old, earlier":   {map[string]func(*adapterObject){"a": func(*adapterObject) {}}, "a"},
		"the oldest of several":  {map[string]func(*adapterObject){"a": func(*adapterObject) {}, "z": older}, "z"},
		"for another service":    {map[string]func(*adapterObject){"a": func(a *adapterObject) { older(a); a.Spec.DGDRef.ServiceName = "Frontend" }}, ""},
		"on its way out":         {map[string]func(*adapterObject){"a": func(a *adapterObject) { older(a); a.DeletionTimestamp = &born }}, ""},
		"left from another life": {map[string]func(*adapterObject){"a": func(a *adapterObject) { older(a); made(a, "chat", "earlier") }}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := adapter("m")
			seen := Seen{Graph: chat(), Adapters: []adapterObject{*a}}
			for other, change := range tc.others {
				o := adapter(other)
				change(o)
				seen.Adapters = append(seen.Adapters, *o)
			}
			got := Desired(a, nil, seen)
			if tc.want == "" && got.Problem != "" || tc.want != "" && (got.Reason != conditions.HasOtherAdapter || !strings.Contains(got.Problem, `"`+tc.want+`"`)) {
				t.Errorf("got %q: %q, want the service with %q", got.Reason, got.Problem, tc.want)
			}
		})
	}
}

func TestAnAdapterOfAGraphThatGoesIsLeftAlone(t *testing.T) {
	t.Parallel()
	leaving := chat()
	leaving.DeletionTimestamp = &born
	for name, tc := range map[string]struct {
		adapter *adapterObject
		graph   *v1alpha1.DynamoGraphDeployment
		want    bool
	}{
		"the graph is there":                     {made(adapter("a"), "chat", "chat"), chat(), false},
		"the graph is being deleted":             {made(adapter("a"), "chat", "chat"), leaving, true},
		"its graph is gone":                      {made(adapter("a"), "chat", "chat"), nil, true},
		"another graph has the name now":         {made(adapter("a"), "chat", "earlier"), chat(), true},
		"made by hand for a graph":               {adapter("a"), chat(), false},
		"made by hand for a graph to come":       {adapter("a"), nil, false},
		"turned from one graph to another":       {made(adapter("a"), "other", "other"), chat(), false},
		"turned to another, which is not there":  {made(adapter("a"), "other", "other"), nil, false},
		"made by hand for one that is going now": {adapter("a"), leaving, true},
	} {
		if got := observe.IsLeftAlone(tc.adapter, tc.graph); got != tc.want {
			t.Errorf("%s: left alone is %v, want %v", name, got, tc.want)
		}
	}
}
