// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cases holds objects that break the rules of admission, one by one, for every test that has to see them broken.
package cases

import (
	_ "embed"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

//go:embed cases.yaml
var content []byte

// Case is a write that breaks a rule, or nearly does.
type Case struct {
	Rule, Kind, Name string
	Broken           bool
	// Old is nil for a new object.
	Old, Object   map[string]any
	Circumstances admission.Circumstances
	// Change is what makes the object of the base of its kind.
	Change map[string]any
}

// file is the form of cases.yaml.
type file struct {
	Bases map[string]map[string]any `json:"bases"`
	Parts []written                 `json:"parts"`
	Cases []written                 `json:"cases"`
}

type written struct {
	Rule, Kind, Name    string
	Broken              *bool
	Old, Object, Change map[string]any
	Circumstances       struct {
		Restricted     bool
		InferencePools string
		Caller         string
		ReplicaWriters []string
	}
}

// Bases returns a good object of every kind.
func Bases() (map[string]map[string]any, error) {
	f, err := read()
	if err != nil {
		return nil, err
	}
	for kind, base := range f.Bases {
		base["apiVersion"], base["kind"] = v1alpha1.GroupVersion.String(), kind
	}
	return f.Bases, nil
}

// All returns every case in the order of the file.
func All() ([]Case, error) {
	f, err := read()
	if err != nil {
		return nil, err
	}
	bases, err := Bases()
	if err != nil {
		return nil, err
	}
	var all []Case
	for _, w := range f.Parts {
		for kind, around := range map[string]func(map[string]any) map[string]any{
			v1alpha1.KindDynamoComponentDeployment: func(part map[string]any) map[string]any { return map[string]any{"spec": part} },
			v1alpha1.KindDynamoGraphDeployment: func(part map[string]any) map[string]any {
				return map[string]any{"spec": map[string]any{"services": map[string]any{"Worker": part}}}
			},
		} {
			w.Kind, w.Object = kind, around(w.Change)
			all = append(all, w.on(bases[kind]))
		}
	}
	for _, w := range f.Cases {
		if bases[w.Kind] == nil {
			return nil, fmt.Errorf("case %q of rule %s: there is no base of kind %q", w.Name, w.Rule, w.Kind)
		}
		all = append(all, w.on(bases[w.Kind]))
	}
	return all, nil
}

func read() (file, error) {
	var f file
	if err := yaml.UnmarshalStrict(content, &f); err != nil {
		return f, fmt.Errorf("read cases.yaml: %w", err)
	}
	return f, nil
}

// on makes a case of what is written.
func (w written) on(base map[string]any) Case {
	presence := map[string]admission.Presence{"served": admission.PresenceServed, "absent": admission.PresenceAbsent}
	c := Case{
		Rule: w.Rule, Kind: w.Kind, Name: w.Name, Broken: w.Broken == nil || *w.Broken, Object: Merge(base, w.Object), Change: w.Object,
		Circumstances: admission.Circumstances{
			Restricted: w.Circumstances.Restricted, InferencePools: presence[w.Circumstances.InferencePools],
			Caller: w.Circumstances.Caller, ReplicaWriters: w.Circumstances.ReplicaWriters,
		},
	}
	if w.Old != nil {
		c.Old = Merge(base, w.Old)
	}
	return c
}

// null stands for a null in a change, in which a null itself removes a member.
const null = "<null>"

// Merge returns an object with a change laid over it.
func Merge(object, change map[string]any) map[string]any {
	merged := maps.Clone(object)
	if merged == nil {
		merged = map[string]any{}
	}
	for key, value := range change {
		switch v := value.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			inner, _ := merged[key].(map[string]any)
			merged[key] = Merge(inner, v)
		case string:
			merged[key] = v
			if v == null {
				merged[key] = nil
			}
		default:
			merged[key] = v
		}
	}
	return merged
}

// Typed converts an object into the type of its kind.
func Typed(object map[string]any) (runtime.Object, error) {
	if object == nil {
		return nil, nil
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	kind, _ := object["kind"].(string)
	typed, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, err
	}
	return typed, yaml.Unmarshal(text, typed)
}
