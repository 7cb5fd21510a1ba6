// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
)

var now = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func adapter(change ...func(*v1alpha1.DynamoModel)) *v1alpha1.DynamoModel {
	m := &v1alpha1.DynamoModel{ObjectMeta: metav1.ObjectMeta{Name: "sql", Namespace: "ns", Generation: 2, CreationTimestamp: now}}
	m.Spec = v1alpha1.DynamoModelSpec{
		ModelName: "org/sql", BaseModelName: "acme/tiny-1b", ModelType: v1alpha1.ModelTypeLoRA, Source: &v1alpha1.ModelSource{URI: "s3://b/new"},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

func had(address, name, uri string) func(*v1alpha1.DynamoModel) {
	return func(m *v1alpha1.DynamoModel) {
		m.Status.Endpoints = append(m.Status.Endpoints, v1alpha1.EndpointInfo{
			Address: address, PodName: "pod-" + address, Ready: true, Adapters: []v1alpha1.EndpointAdapter{{Name: name, URI: uri}},
		})
		m.Status.ObservedGeneration = 1
	}
}

func ready(address string) observe.Endpoint {
	return observe.Endpoint{Address: address, PodName: "pod-" + address, Pod: types.UID(address), Ready: true}
}

// wish is what is wanted of endpoint a.
type wish struct {
	model *v1alpha1.DynamoModel
	seen  Seen
	want  []placement.Want
}

func (w wish) check(t *testing.T, name string) {
	t.Helper()
	for i := range w.want {
		w.want[i].Address = "a"
	}
	if diff := cmp.Diff(w.want, Desired(w.model, w.seen)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestEndpointsShouldHaveTheAdapterAndNothingElseOfIt(t *testing.T) {
	t.Parallel()
	notReady, going, strange, goingStrange := ready("a"), ready("a"), ready("a"), ready("a")
	notReady.Ready = false
	going.Terminating = true
	strange.Problem = "not a pod's"
	goingStrange.Terminating, goingStrange.Problem = true, "gone"
	at := func(name string) placement.Target { return placement.Target{Pod: "a", Name: name} }
	for name, tc := range map[string]wish{
		"new": {adapter(), Seen{Endpoints: []observe.Endpoint{ready("a")}}, []placement.Want{{Target: at("org/sql"), URI: "s3://b/new"}}},
		"known": {
			adapter(had("a", "org/sql", "s3://b/old")), Seen{Endpoints: []observe.Endpoint{ready("a")}},
			[]placement.Want{{Target: at("org/sql"), URI: "s3://b/new", Recorded: "s3://b/old"}},
		},
		"loaded by the reference": {
			adapter(func(m *v1alpha1.DynamoModel) {
				m.Status.Endpoints = []v1alpha1.EndpointInfo{{Address: "a", PodName: "pod-a", Ready: true}}
			}),
			Seen{Endpoints: []observe.Endpoint{ready("a")}}, []placement.Want{{Target: at("org/sql"), URI: "s3://b/new", Recorded: "s3://b/new"}},
		},
		"not ready": {adapter(), Seen{Endpoints: []observe.Endpoint{notReady}}, []placement.Want{{Target: at("org/sql"), URI: "s3://b/new", Hold: true}}},
		"strange":   {adapter(), Seen{Endpoints: []observe.Endpoint{strange}}, []placement.Want{{Target: at("org/sql"), URI: "s3://b/new", Hold: true}}},
		"terminating": {
			adapter(had("a", "org/sql", "s3://b/new")), Seen{Endpoints: []observe.Endpoint{going}},
			[]placement.Want{{Target: at("org/sql"), Recorded: "s3://b/new"}},
		},
		"terminating and strange": {adapter(), Seen{Endpoints: []observe.Endpoint{goingStrange}}, []placement.Want{{Target: at("org/sql"), Hold: true}}},
		"name taken":              {adapter(), Seen{Endpoints: []observe.Endpoint{ready("a")}, Holder: "other"}, nil},
		"invalid":                 {adapter(), Seen{Endpoints: []observe.Endpoint{ready("a")}, Problems: field.ErrorList{field.Required(nil, "")}}, nil},
		"base model": {
			adapter(func(m *v1alpha1.DynamoModel) { m.Spec.ModelType, m.Spec.Source = v1alpha1.ModelTypeBase, nil }),
			Seen{Endpoints: []observe.Endpoint{ready("a")}}, nil,
		},
	} {
		tc.check(t, name)
	}
}

func TestARenamedAdapterGoesWhenTheNewNameIsThereOrCannotBe(t *testing.T) {
	t.Parallel()
	at := func(name string) placement.Target { return placement.Target{Pod: "a", Name: name} }
	for name, tc := range map[string]wish{
		"renamed, not yet there": {
			adapter(had("a", "before", "s3://b/old")), Seen{Endpoints: []observe.Endpoint{ready("a")}},
			[]placement.Want{{Target: at("org/sql"), URI: "s3://b/new"}, {Target: at("before"), Recorded: "s3://b/old", Hold: true}},
		},
		"renamed, and there": {
			adapter(had("a", "before", "s3://b/old")),
			Seen{Endpoints: []observe.Endpoint{ready("a")}, Known: map[placement.Target]placement.Report{at("org/sql"): {Settled: true, Loaded: true}}},
			[]placement.Want{{Target: at("org/sql"), URI: "s3://b/new"}, {Target: at("before"), Recorded: "s3://b/old"}},
		},
		"renamed, and no room for both": {
			adapter(had("a", "before", "s3://b/old")),
			Seen{Endpoints: []observe.Endpoint{ready("a")}, Known: map[placement.Target]placement.Report{at("org/sql"): {Stuck: true, Problem: "full"}}},
			[]placement.Want{{Target: at("org/sql"), URI: "s3://b/new"}, {Target: at("before"), Recorded: "s3://b/old", Costs: true}},
		},
		"renamed to a name that is taken": {
			adapter(had("a", "before", "s3://b/old")), Seen{Endpoints: []observe.Endpoint{ready("a")}, Holder: "other"},
			[]placement.Want{{Target: at("before"), Recorded: "s3://b/old"}},
		},
	} {
		tc.check(t, name)
	}
}

func TestTheOldestOfTwoModelsHasTheName(t *testing.T) {
	t.Parallel()
	named := func(name string, age time.Duration, change ...func(*v1alpha1.DynamoModel)) v1alpha1.DynamoModel {
		m := adapter(change...)
		m.Name, m.CreationTimestamp = name, metav1.NewTime(now.Add(-age))
		return *m
	}
	all := []v1alpha1.DynamoModel{
		named("b", time.Hour), named("a", time.Minute), named("c", time.Hour),
		named("other-name", 2*time.Hour, func(m *v1alpha1.DynamoModel) { m.Spec.ModelName = "x" }),
		named("other-base", 2*time.Hour, func(m *v1alpha1.DynamoModel) { m.Spec.BaseModelName = "x" }),
		named("no-adapter", 2*time.Hour, func(m *v1alpha1.DynamoModel) { m.Spec.ModelType = v1alpha1.ModelTypeBase }),
	}
	holders := func() (got []string) {
		for i := range all[:3] {
			got = append(got, Holder(&all[i], all))
		}
		return got
	}
	if diff := cmp.Diff([]string{"", "b", "b"}, holders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Who has brought it to an endpoint has it, also under another name.
	all = append(all, named("renamed", 0, func(m *v1alpha1.DynamoModel) { m.Spec.ModelName = "x" }, had("a", "org/sql", "s3://b/new")))
	if diff := cmp.Diff([]string{"renamed", "renamed", "renamed"}, holders()); diff != "" {
		t.Errorf("while a renamed one has it (-want +got):\n%s", diff)
	}
}

// told is a status in a few words.
func told(s modelStatus) string {
	var lines []string
	for _, e := range s.Endpoints {
		var has []string
		for _, a := range e.Adapters {
			has = append(has, a.Name+"="+a.URI)
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %t [%s] %s", e.Address, e.Ready, strings.Join(has, " "), e.Message)))
	}
	lines = append(lines, fmt.Sprintf("%d/%d", s.ReadyEndpoints, s.TotalEndpoints))
	for _, c := range s.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(lines, "\n")
}

func TestStatusSaysOfEveryEndpointHowFarItIs(t *testing.T) {
	t.Parallel()
	notReady, going := ready("d"), ready("e")
	notReady.Ready, going.Terminating = false, true
	at := func(address, name string) placement.Target {
		return placement.Target{Pod: types.UID(address), Name: name}
	}
	m := adapter(had("b", "org/sql", "s3://b/new"), had("d", "org/sql", "s3://b/old"), had("f", "org/sql", "s3://b/old"),
		had("g", "before", "s3://b/new"), had("h", "org/sql", "s3://b/old"), had("i", "org/sql", "s3://b/new"))
	seen := Seen{
		Services: 1,
		Endpoints: []observe.Endpoint{
			ready("a"), ready("b"), ready("c"), notReady, going, ready("f"), ready("g"), ready("h"), ready("i"),
		},
		Known: map[placement.Target]placement.Report{
			at("a", "org/sql"): {Settled: true, Loaded: true, URI: "s3://b/new"},
			at("b", "org/sql"): {Unsure: true},
			at("c", "org/sql"): {Problem: "no such bucket", Absent: true},
			at("f", "org/sql"): {Loaded: true, URI: "s3://b/old", Waits: true},
			at("g", "org/sql"): {Settled: true, Loaded: true, URI: "s3://b/new", Absent: false},
			at("g", "before"):  {Loaded: true, Problem: "no answer"},
			at("h", "org/sql"): {Absent: true},
			at("i", "org/sql"): {Problem: "no answer"},
		},
	}
	// A source is recorded before it is loaded, and kept while there is a doubt.
	want := `a true []
b true [org/sql=s3://b/new]
c false [org/sql=s3://b/new] not loaded: no such bucket
d false [org/sql=s3://b/old] the pod is not ready
f false [org/sql=s3://b/old] has the adapter from another source and waits for its turn
g false [before=s3://b/new] still has the adapter as before: no answer
h false [org/sql=s3://b/new]
i false [org/sql=s3://b/new] not loaded: no answer
2/8
EndpointsReady False NotReady: 2 of 8 endpoints are ready; pod-c: not loaded: no such bucket; pod-d: the pod is not ready; pod-f: has the adapter from another source and waits for its turn; and 2 more
Ready False NotReady: 2 of 8 endpoints are ready; pod-c: not loaded: no such bucket; pod-d: the pod is not ready; pod-f: has the adapter from another source and waits for its turn; and 2 more
ServicesFound True ServicesFound: Base model acme/tiny-1b is behind 1 Service
Valid True ValidationPassed: The spec is valid`
	if diff := cmp.Diff(want, told(Status(m, seen, now))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVerdictsAndEvents(t *testing.T) {
	t.Parallel()
	base := adapter(func(m *v1alpha1.DynamoModel) { m.Spec.ModelType, m.Spec.Source = v1alpha1.ModelTypeBase, nil })
	notReady := ready("b")
	notReady.Ready = false
	loaded := Seen{Services: 2, Endpoints: []observe.Endpoint{ready("a")}, Known: map[placement.Target]placement.Report{
		{Pod: "a", Name: "org/sql"}: {Settled: true, Loaded: true, URI: "s3://b/new"}}}
	failing := Seen{Services: 2, Endpoints: []observe.Endpoint{ready("a")}, Known: map[placement.Target]placement.Report{
		{Pod: "a", Name: "org/sql"}: {Problem: "no such bucket"}}}
	after := func(m *v1alpha1.DynamoModel, seen Seen) *v1alpha1.DynamoModel {
		next := m.DeepCopy()
		next.Status = Status(m, seen, now)
		return next
	}
	for name, tc := range map[string]struct {
		model         *v1alpha1.DynamoModel
		seen          Seen
		ready, events string
	}{
		"invalid":           {adapter(), Seen{Problems: field.ErrorList{field.Required(field.NewPath("spec", "source"), "say where")}}, "False ValidationFailed", "ValidationFailed"},
		"nobody":            {adapter(), Seen{}, "False NoEndpoints", "NoEndpointsFound"},
		"still nobody":      {after(adapter(), Seen{}), Seen{}, "False NoEndpoints", ""},
		"no pods":           {base, Seen{Services: 1}, "False NoEndpoints", "NoEndpointsFound"},
		"taken":             {adapter(), Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a")}, Holder: "first"}, "False ModelNameTaken", "ModelNameTaken"},
		"loaded":            {adapter(), loaded, "True AllEndpointsReady", "EndpointsReady"},
		"still loaded":      {after(adapter(), loaded), loaded, "True AllEndpointsReady", ""},
		"failing":           {adapter(), failing, "False NotReady", "PartialEndpointFailure"},
		"failing since":     {after(adapter(), failing), failing, "False NotReady", ""},
		"fell":              {after(adapter(), loaded), failing, "False NotReady", "PartialEndpointFailure NotReady"},
		"base ready":        {base, Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a")}}, "True EndpointsDiscovered", "EndpointsDiscovered"},
		"base, one not":     {base, Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a"), notReady}}, "False NotReady", ""},
		"base, still ready": {after(base, Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a")}}), Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a")}}, "True EndpointsDiscovered", ""},
	} {
		next := Status(tc.model, tc.seen, now)
		c := conditions.Find(next.Conditions, v1alpha1.ConditionReady)
		if got := string(c.Status) + " " + c.Reason; got != tc.ready {
			t.Errorf("%s: %s, want %s", name, got, tc.ready)
		}
		var reasons []string
		for _, e := range Events(tc.model, next) {
			reasons = append(reasons, e.Reason)
		}
		if got := strings.Join(reasons, " "); got != tc.events {
			t.Errorf("%s: events %q, want %q", name, got, tc.events)
		}
	}
}

func TestAPartingSaysWhoStillHasTheAdapter(t *testing.T) {
	t.Parallel()
	m := adapter(had("a", "org/sql", "s3://b/new"), had("b", "before", "s3://b/new"))
	m.Status.Endpoints[1].Adapters = append(m.Status.Endpoints[1].Adapters, v1alpha1.EndpointAdapter{Name: "org/sql", URI: "s3://b/new"})
	seen := Seen{Endpoints: []observe.Endpoint{ready("a"), ready("b"), {Address: "c", PodName: "pod-c", Problem: "gone"}, ready("never")}}
	known := map[placement.Target]placement.Report{}
	for _, w := range Undone(m, seen) {
		known[w.Target] = placement.Report{Settled: true}
	}
	if len(known) != 3 {
		t.Errorf("%d names are taken away, want that of a and both of b: %v", len(known), known)
	}
	e, _ := Judge(seen, known).Event()
	if e.Reason != "LoRAUnloaded" || e.Note != "The adapter was unloaded from 2 endpoints" {
		t.Errorf("in the end: %+v", e)
	}
	known[placement.Target{Pod: "b", Name: "before"}] = placement.Report{Problem: "no answer within 15s"}
	e, _ = Judge(seen, known).Event()
	if e.Reason != "LoRAUnloadFailed" || e.Note != "1 endpoint may still have the adapter: pod-b: no answer within 15s" {
		t.Errorf("with a failure: %+v", e)
	}
	if _, ok := Judge(Seen{}, nil).Event(); ok {
		t.Error("there is something to say of nothing")
	}
}
