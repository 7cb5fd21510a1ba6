// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"maps"
	"slices"
)

// table is what can be asked for, by name.
type table map[string]*route

// route is where requests for a model, or an adapter, go.
type route struct {
	card Card
	// workers write answers; readers only read prompts.
	workers, readers []target
}

type target struct {
	name, address string
	role          Role
}

// buildTable sorts workers by what they serve. What only prefill workers have cannot be asked for.
func buildTable(instances []Instance, namespace string) table {
	t := table{}
	for _, instance := range instances {
		for _, card := range instance.cards(namespace) {
			r, ok := t[card.Name]
			if !ok {
				r = &route{card: card}
				t[card.Name] = r
			}
			to := target{name: instance.Name, address: instance.Address, role: card.Role}
			if card.Role == RolePrefill {
				r.readers = append(r.readers, to)
				continue
			}
			r.card = card
			r.workers = append(r.workers, to)
		}
	}
	maps.DeleteFunc(t, func(_ string, r *route) bool { return len(r.workers) == 0 })
	return t
}

// names are what can be asked for, sorted.
func (t table) names() []string { return slices.Sorted(maps.Keys(t)) }

// rotate begins a list at its nth member, so that everybody has a turn.
func rotate(targets []target, n uint64) []target {
	if len(targets) == 0 {
		return nil
	}
	at := int(n % uint64(len(targets)))
	return slices.Concat(targets[at:], targets[:at])
}
