// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model reconciles DynamoModels: which pods serve the base model, and that each of them has the adapter.
package model

import (
	"cmp"
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
	// Known is what is known of the model's adapters.
	Known map[placement.Target]placement.Report
}

// IsAdapter tells whether a model is loaded into the workers of its base model. Others are only looked for.
func IsAdapter(m *v1alpha1.DynamoModel) bool {
	return strings.EqualFold(m.Spec.ModelType, v1alpha1.ModelTypeLoRA)
}

// Holder returns which of some models has a name on a base model: the oldest, and of two that are equally old the one
// whose name comes first, so that all of them agree. One that is being deleted has it until it is gone.
func Holder(m *v1alpha1.DynamoModel, all []v1alpha1.DynamoModel) string {
	first := m
	for i := range all {
		other := &all[i]
		if other.Spec.ModelName != m.Spec.ModelName || other.Spec.BaseModelName != m.Spec.BaseModelName || !IsAdapter(other) {
			continue
		}
		if cmp.Or(other.CreationTimestamp.Compare(first.CreationTimestamp.Time), cmp.Compare(other.Name, first.Name)) < 0 {
			first = other
		}
	}
	if first.Name == m.Name {
		return ""
	}
	return first.Name
}

// Desired is what the endpoints of an adapter should have.
func Desired(m *v1alpha1.DynamoModel, seen Seen) []placement.Want {
	// A type in capitals, which no schema lets pass, escapes the rule that an adapter has a source.
	if !IsAdapter(m) || m.Spec.Source == nil || len(seen.Problems) > 0 || seen.Holder != "" {
		return nil
	}
	var wants []placement.Want
	for _, e := range seen.Endpoints {
		was := recorded(m, e)
		want := placement.Want{Target: target(e, m.Spec.ModelName), URI: m.Spec.Source.URI, Hold: !callable(e)}
		if was.LoadedName == m.Spec.ModelName {
			want.Recorded = was.LoadedURI
		}
		if e.Terminating {
			want.URI, want.Hold = "", e.Problem != ""
		}
		wants = append(wants, want)
		if was.LoadedName == "" || was.LoadedName == m.Spec.ModelName {
			continue
		}
		// The model was renamed. What it was called before stays until it can be had under its new name.
		old := placement.Want{Target: target(e, was.LoadedName), Hold: want.Hold || !e.Terminating && !seen.Known[want.Target].Settled}
		wants = append(wants, old)
	}
	return wants
}

// Undone is what the endpoints of an adapter should have when its model is deleted, which is nothing of it. That an endpoint
// is not ready is no reason not to try.
func Undone(m *v1alpha1.DynamoModel, seen Seen) []placement.Want {
	if !IsAdapter(m) || seen.Holder != "" {
		return nil
	}
	var wants []placement.Want
	for _, e := range seen.Endpoints {
		if e.Problem != "" {
			continue
		}
		wants = append(wants, placement.Want{Target: target(e, m.Spec.ModelName)})
		if was := recorded(m, e); was.LoadedName != "" && was.LoadedName != m.Spec.ModelName {
			wants = append(wants, placement.Want{Target: target(e, was.LoadedName)})
		}
	}
	return wants
}

// callable tells whether it makes sense to speak with an endpoint.
func callable(e observe.Endpoint) bool { return e.Ready && e.Problem == "" }

func target(e observe.Endpoint, name string) placement.Target {
	return placement.Target{Pod: e.Pod, Restarts: e.Restarts, Address: e.Address, Name: name}
}

// recorded is what the status says of an endpoint.
func recorded(m *v1alpha1.DynamoModel, e observe.Endpoint) v1alpha1.EndpointInfo {
	for _, was := range m.Status.Endpoints {
		if was.Address == e.Address && was.PodName == e.PodName {
			return was
		}
	}
	return v1alpha1.EndpointInfo{}
}
