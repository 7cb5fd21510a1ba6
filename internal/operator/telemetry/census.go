// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// censusTimeout bounds one count. It reads memory, so that only a cache that is not filled yet takes long.
const censusTimeout = 5 * time.Second

// Counted is a kind whose objects are counted.
type Counted struct {
	Kind string
	List func() client.ObjectList
	// Status is the word under which an object is counted.
	Status func(client.Object) string
	// Paused tells whether an object is held still.
	Paused func(client.Object) bool
	// Contested tells whether others keep changing what an object made.
	Contested func(client.Object) bool
}

// Census counts objects whenever somebody asks, so that a state or a namespace that is empty now is not remembered.
type Census struct {
	// Cache is where objects are counted, while Leading is closed.
	Cache   client.Reader
	Leading <-chan struct{}
	Kinds   []Counted
	// Excluded tells which namespaces belong to another operator.
	Excluded func(namespace string) bool
	// Expiry returns when the certificate and its authority end, zero where there is none.
	Expiry func() (leaf, authority time.Time)
	// Leases returns the namespaces that have an operator of their own, with what that means to this one.
	Leases func() map[string]string
	// Metrics forget the namespaces that nothing is in any longer.
	Metrics *Metrics
}

// Describe names what is counted.
func (c *Census) Describe(into chan<- *prometheus.Desc) {
	for _, d := range []definition{resourcesTotal, pausedTotal, contestedTotal, certificateExpiry, namespaceLease} {
		into <- d.desc()
	}
}

// Collect counts.
func (c *Census) Collect(into chan<- prometheus.Metric) {
	put := func(d definition, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(d.desc(), prometheus.GaugeValue, value, labels...)
	}
	leaf, authority := c.Expiry()
	for name, at := range map[string]time.Time{"leaf": leaf, "authority": authority} {
		if !at.IsZero() {
			put(certificateExpiry, float64(at.Unix()), name)
		}
	}
	for namespace, state := range c.Leases() {
		put(namespaceLease, 1, namespace, state)
	}
	select {
	case <-c.Leading:
	default:
		return // every object would be counted once per replica
	}
	ctx, cancel := context.WithTimeout(context.Background(), censusTimeout)
	defer cancel()
	whole, live := true, map[string]bool{}
	for _, kind := range c.Kinds {
		found, err := c.count(ctx, kind)
		if err != nil {
			whole = false // one cache that does not answer must not hide everything else
			continue
		}
		for at, n := range found.statuses {
			live[at.namespace] = true
			put(resourcesTotal, n, kind.Kind, at.namespace, at.status)
		}
		for namespace, n := range found.paused {
			put(pausedTotal, n, kind.Kind, namespace)
		}
		for namespace, n := range found.contested {
			put(contestedTotal, n, kind.Kind, namespace)
		}
	}
	if whole {
		c.Metrics.forgetAllBut(live)
	}
}

// place is where an object is counted.
type place struct{ namespace, status string }

// counts are how many objects of a kind there are: by state, and by namespace those that are paused or contested.
type counts struct {
	statuses          map[place]float64
	paused, contested map[string]float64
}

func (c *Census) count(ctx context.Context, kind Counted) (counts, error) {
	found := counts{statuses: map[place]float64{}, paused: map[string]float64{}, contested: map[string]float64{}}
	list := kind.List()
	if err := c.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return found, err
	}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok || c.Excluded(obj.GetNamespace()) {
			return nil
		}
		found.statuses[place{obj.GetNamespace(), kind.Status(obj)}]++
		if kind.Paused(obj) {
			found.paused[obj.GetNamespace()]++
		}
		if kind.Contested(obj) {
			found.contested[obj.GetNamespace()]++
		}
		return nil
	})
	return found, err
}
