// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Denials finds out why StatefulSets get no pods. Their controller says so in events and nowhere else, so they are asked
// for, uncached, when pods are missing that should long be there. However many ask, a namespace is read once in a while.
type Denials struct {
	api   client.Reader
	clock clock.PassiveClock

	mu    sync.Mutex
	known map[string]*denials
}

// denials are what was found in a namespace: messages by StatefulSet. Whoever asks for one namespace does not wait for another.
type denials struct {
	mu       sync.Mutex
	at       time.Time
	messages map[string]string
}

const (
	// patience is how long pods may be missing before somebody asks why.
	patience = 3 * time.Second

	// AskAgain is how often is asked while they stay missing.
	AskAgain = 10 * time.Second

	// fresh is how long an answer is good for everybody in a namespace.
	fresh = AskAgain / 2

	// recentDenial is how old an event may be to be about now. A controller that goes on failing repeats itself.
	recentDenial = 20 * time.Minute
)

// NewDenials returns a reader of denials. Its API must not be a cache.
func NewDenials(api client.Reader, c clock.PassiveClock) *Denials {
	return &Denials{api: api, clock: c, known: map[string]*denials{}}
}

// Overdue tells whether pods that should have been there since a moment are missing for too long.
func (d *Denials) Overdue(since time.Time) bool { return d.clock.Since(since) >= patience }

// Of returns the latest refusal to make pods for the StatefulSets of a LeaderWorkerSet, in the words of the API server;
// empty if there is none.
func (d *Denials) Of(ctx context.Context, namespace, set string) (string, error) {
	found := d.of(namespace)
	found.mu.Lock()
	defer found.mu.Unlock()
	if d.clock.Since(found.at) >= fresh {
		messages, err := d.read(ctx, namespace)
		if err != nil {
			return "", err
		}
		found.at, found.messages = d.clock.Now(), messages
	}
	if message, ok := found.messages[set]; ok {
		return message, nil
	}
	for _, name := range slices.Sorted(maps.Keys(found.messages)) {
		if strings.HasPrefix(name, set+"-") { // that of its workers
			return found.messages[name], nil
		}
	}
	return "", nil
}

// of is what is known of a namespace. What nobody may use any longer is dropped.
func (d *Denials) of(namespace string) *denials {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.known, func(_ string, of *denials) bool {
		if !of.mu.TryLock() {
			return false // somebody is reading
		}
		defer of.mu.Unlock()
		return d.clock.Since(of.at) >= fresh
	})
	if d.known[namespace] == nil {
		d.known[namespace] = &denials{}
	}
	return d.known[namespace]
}

// +kubebuilder:rbac:groups="",resources=events,verbs=list

func (d *Denials) read(ctx context.Context, namespace string) (map[string]string, error) {
	var found corev1.EventList
	err := d.api.List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{
		"involvedObject.kind": "StatefulSet", "reason": "FailedCreate",
	})
	if err != nil {
		return nil, fmt.Errorf("list events of StatefulSets: %w", err)
	}
	messages, latest := map[string]string{}, map[string]time.Time{}
	for i := range found.Items {
		e := &found.Items[i]
		name, at := e.InvolvedObject.Name, lastSeen(e)
		if d.clock.Since(at) < recentDenial && !at.Before(latest[name]) {
			latest[name], messages[name] = at, refusalIn(e.Message)
		}
	}
	return messages, nil
}

// lastSeen is when an event was last repeated.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

// refusalIn leaves out what the controller says about itself in front of the answer that it got.
func refusalIn(message string) string {
	if _, cause, ok := strings.Cut(message, " failed error: "); ok {
		return cause
	}
	return message
}
