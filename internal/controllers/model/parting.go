// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/placement"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/statusio"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// patience is how long the deletion of a model waits for its endpoints.
	patience = 30 * time.Second
	// oneCall is how long an operator waits that comes late.
	oneCall = 15 * time.Second
)

// Parting is how far the endpoints of a model that is being deleted are.
type Parting struct {
	Unloaded, Pending int
	// Problems are why endpoints still have the adapter, by pod.
	Problems map[string]string
}

// Judge tells how far the endpoints are.
func Judge(seen Seen, known map[placement.Target]placement.Report) Parting {
	p := Parting{Problems: map[string]string{}}
	for _, e := range seen.Endpoints {
		count, pending := 0, ""
		for target, report := range known {
			if target.Pod != e.Pod || target.Restarts != e.Restarts {
				continue
			}
			count++
			if !report.Settled {
				pending = cmp.Or(report.Problem, "no answer yet")
			}
		}
		switch {
		case pending != "":
			p.Pending++
			p.Problems[e.PodName] = pending
		case count > 0:
			p.Unloaded++
		}
	}
	return p
}

// Event is what is to be said of a parting in the end, if anything.
func (p Parting) Event() (statusio.Event, bool) {
	switch {
	case p.Pending > 0:
		return statusio.Event{
			Type: corev1.EventTypeWarning, Reason: "LoRAUnloadFailed", Action: "Delete",
			Note: fmt.Sprintf("%s may still have the adapter: %s", plural(p.Pending, "endpoint"), conditions.Summary(p.Problems)),
		}, true
	case p.Unloaded > 0:
		return statusio.Event{
			Type: corev1.EventTypeNormal, Reason: "LoRAUnloaded", Action: "Delete",
			Note: fmt.Sprintf("The adapter was unloaded from %s", plural(p.Unloaded, "endpoint")),
		}, true
	}
	return statusio.Event{}, false
}

func hasFinalizer(m *v1alpha1.DynamoModel) bool {
	return slices.Contains(m.Finalizers, names.Finalizer)
}

// partings remembers since when models are going. Its zero value is ready to use.
type partings struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
	told  map[types.UID]bool
}

// left is how much patience is left for a model that was deleted at some time.
func (p *partings) left(uid types.UID, deleted, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since == nil {
		p.since, p.told = map[types.UID]time.Time{}, map[types.UID]bool{}
	}
	if _, ok := p.since[uid]; !ok {
		p.since[uid] = now
	}
	// Deleted is by the API server's clock. If ours is behind, it must not make anybody wait longer.
	return min(max(patience-now.Sub(deleted), oneCall-now.Sub(p.since[uid])), patience-now.Sub(p.since[uid]))
}

// tell tells whether how a parting ended is still to be said, once.
func (p *partings) tell(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.told[uid]
	p.told[uid] = true
	return !before
}

func (p *partings) drop(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, uid)
	delete(p.told, uid)
}
