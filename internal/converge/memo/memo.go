// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memo keeps what was computed for an object until something it was computed from changes, so that an event
// that changes nothing renders nothing.
package memo

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// room is for how many objects values are kept. While something moves, objects are looked at again within seconds, and fewer
// than this move at a time; what rests is not looked at, and computing a value again takes less than a millisecond. So the
// memory that values take does not grow with the number of objects.
const room = 256

// Memo holds one value per object, of those that were looked at last. It is safe for concurrent use on different objects; the
// work queue sees to it that one object is never reconciled twice at a time.
type Memo[V any] struct {
	values *lru.Cache

	mu   sync.Mutex
	uids map[types.NamespacedName]types.UID
}

type entry[V any] struct {
	uid                 types.UID
	generation          int64
	labels, annotations map[string]string
	circumstances       string
	value               V
}

// New returns an empty memo.
func New[V any]() *Memo[V] {
	return &Memo[V]{values: lru.New(room), uids: map[types.NamespacedName]types.UID{}}
}

// Get returns the value computed for the object, computing it if the object's spec, labels or annotations changed, or
// the circumstances: whatever else the value depends on, as text.
func (m *Memo[V]) Get(obj client.Object, circumstances string, compute func() V) V {
	key := client.ObjectKeyFromObject(obj)
	if found, ok := m.values.Get(key); ok {
		e := found.(entry[V])
		if e.uid == obj.GetUID() && e.generation == obj.GetGeneration() && e.circumstances == circumstances &&
			maps.Equal(e.labels, obj.GetLabels()) && maps.Equal(e.annotations, obj.GetAnnotations()) {
			return e.value
		}
	}
	e := entry[V]{
		uid: obj.GetUID(), generation: obj.GetGeneration(),
		labels: maps.Clone(obj.GetLabels()), annotations: maps.Clone(obj.GetAnnotations()),
		circumstances: circumstances, value: compute(),
	}
	m.values.Add(key, e)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.uids[key] = e.uid
	return e.value
}

// UID returns the UID of the object a value was computed for last, empty for none.
func (m *Memo[V]) UID(key types.NamespacedName) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uids[key]
}

// Forget drops the value of an object that is gone and returns the UID it had, empty if nothing was known of it.
func (m *Memo[V]) Forget(key types.NamespacedName) types.UID {
	m.values.Remove(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := m.uids[key]
	delete(m.uids, key)
	return uid
}
