// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
)

// recordedIn are the adapters that a status says endpoints have, by pod.
func recordedIn(s modelStatus) map[string][]v1alpha1.EndpointAdapter {
	all := map[string][]v1alpha1.EndpointAdapter{}
	for _, e := range s.Endpoints {
		all[e.PodName] = e.Adapters
	}
	return all
}

func TestAnEndpointIsNotReadyWithWhatWasWantedAMomentAgo(t *testing.T) {
	t.Parallel()
	m := adapter(had("a", "org/sql", "s3://b/old")) // it should be s3://b/new by now
	seen := Seen{Services: 1, Endpoints: []observe.Endpoint{ready("a")}, Known: map[placement.Target]placement.Report{
		{Pod: "a", Name: "org/sql"}: {Settled: true, Loaded: true, URI: "s3://b/old"}}}
	if next := Status(m, seen, now); next.ReadyEndpoints != 0 {
		t.Errorf("ready from the source before:\n%s", told(next))
	}
}

func TestWhatAnotherModelHasIsNeitherRecordedNorTakenAway(t *testing.T) {
	t.Parallel()
	m := adapter(had("a", "org/sql", "s3://b/new"), had("a2", "before", "s3://b/new"))
	seen := Seen{Holder: "other", Endpoints: []observe.Endpoint{ready("a"), ready("a2")}}
	want := map[string][]v1alpha1.EndpointAdapter{"pod-a": nil, "pod-a2": {{Name: "before", URI: "s3://b/new"}}}
	if diff := cmp.Diff(want, recordedIn(Status(m, seen, now))); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	gone := Undone(m, seen)
	if len(gone) != 1 || gone[0].Name != "before" {
		t.Errorf("taken away: %v", gone)
	}
}

func TestWhatAPodHasIsNotForgottenWhileItIsBehindNoService(t *testing.T) {
	t.Parallel()
	m := adapter(had("a", "org/sql", "s3://b/new"), had("b", "org/sql", "s3://b/new"))
	next := Status(m, Seen{Pods: map[string]bool{"pod-a": true}}, now)
	want := map[string][]v1alpha1.EndpointAdapter{"pod-a": {{Name: "org/sql", URI: "s3://b/new"}}}
	if diff := cmp.Diff(want, recordedIn(next)); diff != "" || next.TotalEndpoints != 0 {
		t.Errorf("%d endpoints are counted; recorded (-want +got):\n%s", next.TotalEndpoints, diff)
	}
	next = Status(m, Seen{Problems: field.ErrorList{field.Required(nil, "")}}, now)
	if len(next.Endpoints) != 2 || next.Endpoints[0].Ready || len(next.Endpoints[0].Adapters) != 1 {
		t.Errorf("a model that became invalid forgets what its endpoints have:\n%s", told(next))
	}
}

func TestAnEndpointWithoutAPodIsNotCalled(t *testing.T) {
	t.Parallel()
	nobody := observe.Endpoint{Address: "a", PodName: "pod-a", Ready: true, Problem: "the pod is not there"}
	if wants := Desired(adapter(), Seen{Endpoints: []observe.Endpoint{nobody, nobody}}); len(wants) != 0 {
		t.Errorf("wanted: %v", wants)
	}
}

func TestPatienceDoesNotDependOnTheClockOfTheAPIServer(t *testing.T) {
	t.Parallel()
	here := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		deleted time.Duration
		want    time.Duration
	}{
		"at once":            {0, patience},
		"ten seconds ago":    {-10 * time.Second, patience - 10*time.Second},
		"long ago":           {-time.Hour, oneCall},
		"in our near future": {5 * time.Minute, patience},
	} {
		var p partings
		if got := p.left("uid", here.Add(tc.deleted), here); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if got := p.left("uid", here.Add(tc.deleted), here.Add(patience)); got > 0 {
			t.Errorf("%s: %s are left in the end", name, got)
		}
	}
}
