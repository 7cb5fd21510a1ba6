// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// mergeKeys are the lists that the API server merges by key instead of replacing them whole, with the member that
// identifies an element. Where an element lacks the member, the list is compared by position.
var mergeKeys = map[string][]string{
	"containers":                {"name"},
	"initContainers":            {"name"},
	"ephemeralContainers":       {"name"},
	"env":                       {"name"},
	"volumes":                   {"name"},
	"imagePullSecrets":          {"name"},
	"resourceClaims":            {"name"},
	"claims":                    {"name"},
	"volumeMounts":              {"mountPath"},
	"volumeDevices":             {"devicePath"},
	"ports":                     {"containerPort", "port"},
	"hostAliases":               {"ip"},
	"ownerReferences":           {"uid"},
	"topologySpreadConstraints": {"topologyKey"},
}

// atomicMaps are the maps that the API server replaces whole. One key more than wanted is another meaning: a Service whose
// selector has one finds no pod.
var atomicMaps = map[string]bool{"selector": true, "matchLabels": true, "nodeSelector": true}

// quantities are members, and members of members, that hold resource amounts: the server may answer "500m" to "0.5".
var (
	quantityMembers = map[string]bool{"sizeLimit": true, "size": true, "divisor": true}
	quantityMaps    = map[string]bool{"limits": true, "requests": true, "capacity": true}
)

// contained tells whether every field of the intent is in the live object with the same meaning. Fields that others
// set, and defaults of the server, do not matter.
func contained(intent, live map[string]any) bool {
	return containedIn("", "", intent, live)
}

// containedIn compares one value. Member is the name under which it stands, parent the name above that.
func containedIn(parent, member string, want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		return ok && mapContained(member, w, g)
	case []any:
		g, ok := got.([]any)
		return ok && listContained(member, w, g)
	case string:
		return stringEqual(parent, member, w, got)
	case nil:
		return got == nil
	}
	if w, ok := number(want); ok {
		g, ok := number(got)
		return ok && w == g
	}
	return want == got
}

func mapContained(member string, want, got map[string]any) bool {
	if atomicMaps[member] && len(want) != len(got) {
		return false
	}
	for key, value := range want {
		live, ok := got[key]
		if !ok || !containedIn(member, key, value, live) {
			return false
		}
	}
	return true
}

func listContained(member string, want, got []any) bool {
	if key := mergeKey(member, want); key != "" {
		return everyByKey(member, key, want, got)
	}
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !containedIn(member, "", want[i], got[i]) {
			return false
		}
	}
	return true
}

// mergeKey returns the identifying member that all elements have, "" when the list is to be compared by position.
func mergeKey(member string, want []any) string {
	for _, key := range mergeKeys[member] {
		if allHave(key, want) {
			return key
		}
	}
	return ""
}

func allHave(key string, list []any) bool {
	for _, element := range list {
		m, ok := element.(map[string]any)
		if !ok {
			return false
		}
		if _, ok := m[key]; !ok {
			return false
		}
	}
	return true
}

// everyByKey looks for each wanted element among all live ones of the same key, because a key such as a port number
// may occur twice with different protocols.
func everyByKey(member, key string, want, got []any) bool {
	for _, w := range want {
		if !someContains(member, key, w.(map[string]any), got) {
			return false
		}
	}
	return true
}

func someContains(member, key string, want map[string]any, got []any) bool {
	for _, g := range got {
		live, ok := g.(map[string]any)
		if !ok || !containedIn(member, key, want[key], live[key]) {
			continue
		}
		if mapContained(member, want, live) {
			return true
		}
	}
	return false
}

func stringEqual(parent, member, want string, got any) bool {
	if want == got {
		return true
	}
	g, ok := got.(string)
	if !ok || (!quantityMembers[member] && !quantityMaps[parent]) {
		return false
	}
	a, errA := resource.ParseQuantity(want)
	b, errB := resource.ParseQuantity(g)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

// number reads any of the forms in which JSON numbers arrive.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case int32:
		return float64(n), true
	case int:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// Contained tells whether every field that is set in want is in live with the same meaning. Both are pointers to structs.
func Contained(want, live any) (bool, error) {
	intent, err := opinions(want)
	if err != nil {
		return false, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, err
	}
	return contained(intent, fields), nil
}
