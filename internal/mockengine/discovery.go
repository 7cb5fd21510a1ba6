// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Discovery finds workers.
type Discovery interface {
	// Watch calls report with all workers, at first and whenever they change, until the context ends. It calls it from one
	// goroutine at a time.
	Watch(ctx context.Context, report func([]Instance)) error
}

// Publisher makes a worker known.
type Publisher interface {
	// Publish replaces what is known of the worker.
	Publish(ctx context.Context, m Metadata) error
	// Withdraw makes the worker unknown. It is no error if it was.
	Withdraw(ctx context.Context) error
}

// Directory is discovery within one process.
type Directory struct {
	mu        sync.Mutex
	instances map[string]Instance
	changed   chan struct{}
}

// NewDirectory returns a directory without workers.
func NewDirectory() *Directory {
	return &Directory{instances: map[string]Instance{}, changed: make(chan struct{})}
}

// Watch implements Discovery.
func (d *Directory) Watch(ctx context.Context, report func([]Instance)) error {
	for {
		instances, changed := d.snapshot()
		report(instances)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (d *Directory) snapshot() ([]Instance, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var instances []Instance
	for _, name := range slices.Sorted(maps.Keys(d.instances)) {
		instances = append(instances, d.instances[name])
	}
	return instances, d.changed
}

func (d *Directory) change(edit func(map[string]Instance)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(d.instances)
	close(d.changed)
	d.changed = make(chan struct{})
}

// Publisher returns where the worker of that name and address makes itself known in the directory.
func (d *Directory) Publisher(name, address string) Publisher {
	return entry{directory: d, name: name, address: address}
}

type entry struct {
	directory     *Directory
	name, address string
}

func (e entry) Publish(_ context.Context, m Metadata) error {
	e.directory.change(func(all map[string]Instance) {
		all[e.name] = Instance{Name: e.name, Address: e.address, Metadata: m}
	})
	return nil
}

func (e entry) Withdraw(context.Context) error {
	e.directory.change(func(all map[string]Instance) { delete(all, e.name) })
	return nil
}

// Addresses is discovery without Kubernetes: every worker of a fixed list is asked what it publishes, again and again.
type Addresses struct {
	// Hosts are hosts and ports of system ports.
	Hosts []string
	// Every is the time between two rounds.
	Every time.Duration
	Clock clock.Clock
	// Client asks; it should have a timeout.
	Client *http.Client
}

// Watch implements Discovery. A worker that does not answer, or is not ready, is not there.
func (a Addresses) Watch(ctx context.Context, report func([]Instance)) error {
	for {
		var instances []Instance
		for _, host := range a.Hosts {
			if m, err := a.ask(ctx, host); err == nil {
				instances = append(instances, Instance{Name: host, Address: strings.TrimPrefix(host, "http://"), Metadata: m})
			}
		}
		report(instances)
		select {
		case <-ctx.Done():
			return nil
		case <-a.Clock.After(a.Every):
		}
	}
}

func (a Addresses) ask(ctx context.Context, host string) (Metadata, error) {
	var m Metadata
	url := "http://" + strings.TrimPrefix(host, "http://") + pathMetadata
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return m, fmt.Errorf("ask %s: %w", host, err)
	}
	answer, err := a.Client.Do(r)
	if err != nil {
		return m, fmt.Errorf("ask %s: %w", host, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return m, fmt.Errorf("ask %s: %s", host, answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&m); err != nil {
		return m, fmt.Errorf("ask %s: %w", host, err)
	}
	return m, nil
}
