// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model reconciles DynamoModels: which pods serve the base model, and that each of them has the adapter.
package model

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
)

// Seen is what a model depends on.
type Seen struct {
	// Problems are the user's to solve; while there is one, no endpoint is called.
	Problems field.ErrorList
	// Holder is the model that has the name, empty if it is this one.
	Holder    string
	Endpoints []observe.Endpoint
	Services  int
	// Pods are those that were made to serve the base model, also if they are behind no Service at the moment.
	Pods map[string]bool
	// Known is what is known of the model's adapters.
	Known map[placement.Target]placement.Report
}

// IsAdapter tells whether a model is loaded into the workers of its base model. Others are only looked for.
func IsAdapter(m *v1alpha1.DynamoModel) bool {
	return strings.EqualFold(m.Spec.ModelType, v1alpha1.ModelTypeLoRA)
}

// Holder returns which of some models has a name on a base model, empty if that is this one. Who has brought it to an endpoint
// has it, whatever it is called now; of others the oldest, and of two that are equally old the one whose name comes first, so
// that all of them agree. A model that is being deleted has its names until it is gone.
func Holder(m *v1alpha1.DynamoModel, all []v1alpha1.DynamoModel) string {
	first := m
	for i := range all {
		other := &all[i]
		if other.Name == m.Name || other.Spec.BaseModelName != m.Spec.BaseModelName || !IsAdapter(other) || !claims(other, m.Spec.ModelName) {
			continue
		}
		if order(other, first, m.Spec.ModelName) < 0 {
			first = other
		}
	}
	if first == m {
		return ""
	}
	return first.Name
}

// order tells which of two models comes first with a name.
func order(a, b *v1alpha1.DynamoModel, name string) int {
	has := func(m *v1alpha1.DynamoModel) int {
		if brought(m, name) {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(has(a), has(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// claims tells whether a model is called by a name, or has brought it to an endpoint.
func claims(m *v1alpha1.DynamoModel, name string) bool {
	return m.Spec.ModelName == name || brought(m, name)
}

func brought(m *v1alpha1.DynamoModel, name string) bool {
	return slices.ContainsFunc(m.Status.Endpoints, func(e v1alpha1.EndpointInfo) bool {
		return slices.ContainsFunc(adaptersOf(m, e), func(a v1alpha1.EndpointAdapter) bool { return a.Name == name })
	})
}

// Names are all that a model claims, for those who wait for one of them.
func Names(m *v1alpha1.DynamoModel) []string {
	all := []string{m.Spec.ModelName}
	for _, e := range m.Status.Endpoints {
		for _, a := range e.Adapters {
			all = append(all, a.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Desired is what the endpoints of an adapter should have.
func Desired(m *v1alpha1.DynamoModel, seen Seen) []placement.Want {
	// A type in capitals, which no schema lets pass, escapes the rule that an adapter has a source.
	if !IsAdapter(m) || m.Spec.Source == nil || len(seen.Problems) > 0 {
		return nil
	}
	var wants []placement.Want
	for _, e := range seen.Endpoints {
		if e.Pod == "" {
			continue // nobody can be called, and nobody told from another
		}
		settled, stuck := false, false
		if seen.Holder == "" {
			want := placement.Want{Target: target(e, m.Spec.ModelName), Address: e.Address, URI: m.Spec.Source.URI, Hold: !callable(e)}
			want.Recorded = recordedURI(m, e, m.Spec.ModelName)
			known := seen.Known[want.Target]
			settled, stuck = known.Settled, known.Stuck
			if e.Terminating {
				want.URI, want.Hold, settled = "", e.Problem != "", true
			}
			wants = append(wants, want)
		}
		for _, a := range recorded(m, e) {
			if a.Name == m.Spec.ModelName {
				continue
			}
			// The model was renamed. What it was called before stays until it can be had under its new name, or until an endpoint
			// refuses that name long enough to have no room for both. Where another model has the new name, there is nothing to
			// wait for, and two that change names would wait for each other.
			hold := e.Problem != "" || !e.Terminating && !e.Ready || seen.Holder == "" && !settled && !stuck
			wants = append(wants, placement.Want{Target: target(e, a.Name), Address: e.Address, Recorded: a.URI, Hold: hold, Costs: stuck})
		}
	}
	return wants
}

// Undone is what the endpoints of an adapter should have when its model is deleted, which is nothing that it brought. That an
// endpoint is not ready is no reason not to try. What another model has is that one's.
func Undone(m *v1alpha1.DynamoModel, seen Seen) []placement.Want {
	if !IsAdapter(m) {
		return nil
	}
	var wants []placement.Want
	for _, e := range seen.Endpoints {
		if e.Problem != "" {
			continue
		}
		for _, a := range recorded(m, e) {
			if a.Name == m.Spec.ModelName && seen.Holder != "" {
				continue
			}
			wants = append(wants, placement.Want{Target: target(e, a.Name), Address: e.Address, Recorded: a.URI})
		}
	}
	return wants
}

// callable tells whether it makes sense to speak with an endpoint.
func callable(e observe.Endpoint) bool { return e.Ready && e.Problem == "" }

func target(e observe.Endpoint, name string) placement.Target {
	return placement.Target{Pod: e.Pod, Restarts: e.Restarts, Name: name}
}

// entryOf is what the status says of an endpoint. A pod has one entry, whatever its address.
func entryOf(m *v1alpha1.DynamoModel, e observe.Endpoint) v1alpha1.EndpointInfo {
	for _, was := range m.Status.Endpoints {
		if was.PodName == e.PodName {
			return was
		}
	}
	return v1alpha1.EndpointInfo{}
}

// recorded are the adapters that a model has brought to an endpoint.
func recorded(m *v1alpha1.DynamoModel, e observe.Endpoint) []v1alpha1.EndpointAdapter {
	return adaptersOf(m, entryOf(m, e))
}

// adaptersOf are the adapters of an entry. The reference records none: what it says to be ready is what its model asks for.
func adaptersOf(m *v1alpha1.DynamoModel, was v1alpha1.EndpointInfo) []v1alpha1.EndpointAdapter {
	if len(was.Adapters) == 0 && was.Ready && m.Status.ObservedGeneration <= 0 && m.Spec.Source != nil {
		return []v1alpha1.EndpointAdapter{{Name: m.Spec.ModelName, URI: m.Spec.Source.URI}}
	}
	return was.Adapters
}

func recordedURI(m *v1alpha1.DynamoModel, e observe.Endpoint, name string) string {
	for _, a := range recorded(m, e) {
		if a.Name == name {
			return a.URI
		}
	}
	return ""
}
