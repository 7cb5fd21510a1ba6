// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
)

// adapters is what a worker has loaded and what it says of it. The two differ when publishing fails.
type adapters struct {
	base  string
	slots int

	mu        sync.Mutex
	loaded    map[string]adapter
	published map[string]bool
	counters  Counters
}

type adapter struct {
	id  int64
	uri string
}

// Counters are how often things happened to a worker since its start. Maps are by the name of the adapter, Requests also by
// that of the base model.
type Counters struct {
	// Loads counts every load that succeeded, also of what was loaded.
	Loads map[string]int `json:"loads"`
	// FailedLoads counts those that were refused.
	FailedLoads map[string]int `json:"failedLoads"`
	Unloads     map[string]int `json:"unloads"`
	Requests    map[string]int `json:"requests"`
}

func newAdapters(base string, slots int) *adapters {
	return &adapters{
		base: base, slots: slots, loaded: map[string]adapter{}, published: map[string]bool{},
		counters: Counters{Loads: map[string]int{}, FailedLoads: map[string]int{}, Unloads: map[string]int{}, Requests: map[string]int{}},
	}
}

// load takes an adapter into a slot. One that has a slot keeps it.
func (a *adapters) load(name, uri string) (id int64, again bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if present, ok := a.loaded[name]; ok {
		a.counters.Loads[name]++
		return present.id, true, nil
	}
	if err := a.refusal(name, uri); err != nil {
		a.counters.FailedLoads[name]++
		return 0, false, err
	}
	id = a.freeID(name)
	a.loaded[name] = adapter{id: id, uri: uri}
	a.counters.Loads[name]++
	return id, false, nil
}

func (a *adapters) refusal(name, uri string) error {
	switch {
	case name == "":
		return fmt.Errorf("lora_name is required")
	case uri == "":
		return fmt.Errorf("source.uri is required")
	case name == a.base:
		return fmt.Errorf("%q is the base model", name)
	case a.slots > 0 && len(a.loaded) >= a.slots:
		return fmt.Errorf("no free slot: %d of %d adapters are loaded", len(a.loaded), a.slots)
	}
	return nil
}

// freeID is a number that follows from the name, so that all workers give an adapter the same one, unless two names meet.
func (a *adapters) freeID(name string) int64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name)) // a hash takes everything
	for id := int64(sum.Sum32() & math.MaxInt32); ; id++ {
		taken := slices.ContainsFunc(slices.Collect(maps.Values(a.loaded)), func(other adapter) bool { return other.id == id })
		if id > 0 && !taken {
			return id
		}
	}
}

// rollback undoes a load that could not be published.
func (a *adapters) rollback(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.loaded, name)
	delete(a.published, name)
	a.counters.Loads[name]--
	a.counters.FailedLoads[name]++
}

// unload frees the slot of an adapter.
func (a *adapters) unload(name string) (id int64, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	present, found := a.loaded[name]
	if found {
		delete(a.loaded, name)
		a.counters.Unloads[name]++
	}
	return present.id, found
}

// settle has the worker say of an adapter what is true of it.
func (a *adapters) settle(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.loaded[name]; ok {
		a.published[name] = true
		return
	}
	delete(a.published, name)
}

// serves tells whether a model can be asked for, and counts that it was.
func (a *adapters) serves(model string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.loaded[model]; !ok && model != a.base {
		return false
	}
	a.counters.Requests[model]++
	return true
}

// list returns the adapters that are loaded, with their numbers.
func (a *adapters) list() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make(map[string]int64, len(a.loaded))
	for name, present := range a.loaded {
		ids[name] = present.id
	}
	return ids
}

// names returns the adapters that the worker says it has, sorted.
func (a *adapters) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.published))
}

func (a *adapters) count() Counters {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Counters{
		Loads: maps.Clone(a.counters.Loads), FailedLoads: maps.Clone(a.counters.FailedLoads),
		Unloads: maps.Clone(a.counters.Unloads), Requests: maps.Clone(a.counters.Requests),
	}
}
