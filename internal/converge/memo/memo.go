// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memo keeps what was computed for an object until something it was computed from changes, so that an event
// that changes nothing renders nothing.
package memo

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memo holds one value per object. It is safe for concurrent use on different objects; the work queue sees to it that
// one object is never reconciled twice at a time.
type Memo[V any] struct {
	mu     sync.Mutex
	values map[types.NamespacedName]entry[V]
}

type entry[V any] struct {
	uid                 types.UID
	generation          int64
	labels, annotations map[string]string
	circumstances       string
	value               V
}

// New returns an empty memo.
func New[V any]() *Memo[V] { return &Memo[V]{values: map[types.NamespacedName]entry[V]{}} }

// Get returns the value computed for the object, computing it if the object's spec, labels or annotations changed, or
// the circumstances: whatever else the value depends on, as text.
func (m *Memo[V]) Get(obj client.Object, circumstances string, compute func() V) V {
	key := client.ObjectKeyFromObject(obj)
	m.mu.Lock()
	e, ok := m.values[key]
	m.mu.Unlock()
	if ok && e.uid == obj.GetUID() && e.generation == obj.GetGeneration() && e.circumstances == circumstances &&
		maps.Equal(e.labels, obj.GetLabels()) && maps.Equal(e.annotations, obj.GetAnnotations()) {
		return e.value
	}
	e = entry[V]{
		uid: obj.GetUID(), generation: obj.GetGeneration(),
		labels: maps.Clone(obj.GetLabels()), annotations: maps.Clone(obj.GetAnnotations()),
		circumstances: circumstances, value: compute(),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = e
	return e.value
}

// UID returns the UID of the object a value was computed for last, empty for none.
func (m *Memo[V]) UID(key types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.values[key].uid
}

// Forget drops the value of an object that is gone and returns the UID it had, empty if nothing was known of it.
func (m *Memo[V]) Forget(key types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.values[key].uid
	delete(m.values, key)
	return uid
}
