// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Calls are what can be asked of an endpoint; see lora.Client.
type Calls interface {
	Load(ctx context.Context, address, name, uri string) error
	Unload(ctx context.Context, address, name string) error
	Loaded(ctx context.Context, address string) (loaded map[string]bool, known bool, err error)
}

// Keeper calls endpoints until they are as models want them, each at its own pace.
type Keeper struct {
	Calls Calls
	Clock clock.WithDelayedExecution
	// Changed is told of a model of which something new is known.
	Changed func(model types.NamespacedName)
	// Count is told of every call that ended.
	Count func(operation string, err error, took time.Duration)
	// Enter makes a call to a namespace and ends its context when the operator may no longer act there. An error says why it was
	// not made: ErrElsewhere, or that nobody could be asked.
	Enter func(ctx context.Context, namespace string, call func(context.Context)) error

	mu     sync.Mutex
	models map[types.UID]*model
	ended  bool
	calls  sync.WaitGroup
}

// Start waits for the end, and then for the calls that are under way, which it cuts off.
func (k *Keeper) Start(ctx context.Context) error {
	<-ctx.Done()
	k.mu.Lock()
	k.ended = true
	for uid := range k.models {
		k.drop(uid)
	}
	k.mu.Unlock()
	k.calls.Wait()
	return nil
}

// model is everything about one model's endpoints.
type model struct {
	name    types.NamespacedName
	entries map[Target]*entry
	cancel  map[*entry]context.CancelFunc
	timer   clock.Timer
}

// Want takes note of what a model wants, and returns what is known. Targets that are no longer mentioned are forgotten.
func (k *Keeper) Want(uid types.UID, name types.NamespacedName, wants []Want) map[Target]Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.models[uid]
	if m == nil {
		m = &model{name: name, entries: map[Target]*entry{}, cancel: map[*entry]context.CancelFunc{}}
		if k.models == nil {
			k.models = map[types.UID]*model{}
		}
		k.models[uid] = m
	}
	m.take(wants)
	k.advance(m)
	return m.reports()
}

// Known returns what is known of a model's targets.
func (k *Keeper) Known(uid types.UID) map[Target]Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.models[uid]; m != nil {
		return m.reports()
	}
	return nil
}

func (m *model) reports() map[Target]Report {
	reports := make(map[Target]Report, len(m.entries))
	for target, e := range m.entries {
		reports[target] = e.report()
	}
	return reports
}

// Doubt makes everything uncertain that is known of the endpoints in a namespace: another operator has worked there.
func (k *Keeper) Doubt(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.models {
		if m.name.Namespace != namespace {
			continue
		}
		for _, e := range m.entries {
			e.state = held(e.state)
			e.state.called = false
		}
	}
}

// Forget drops a model. Calls that are under way are cut off.
func (k *Keeper) Forget(uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(uid)
}

func (k *Keeper) drop(uid types.UID) {
	if m := k.models[uid]; m != nil {
		m.take(nil)
		if m.timer != nil {
			m.timer.Stop()
		}
		delete(k.models, uid)
	}
}

// take brings the entries to what is wanted. A call that is under way is waited for: a worker does not stop because nobody
// listens, and what it does then has to be known. Only what concerns nobody any longer is cut off.
func (m *model) take(wants []Want) {
	mentioned := make(map[Target]bool, len(wants))
	for _, w := range wants {
		mentioned[w.Target] = true
		e := m.entries[w.Target]
		if e == nil {
			m.entries[w.Target] = &entry{want: w}
			continue
		}
		if e.want.URI != w.URI {
			e.state = e.state.wished() // another wish, another chance
		}
		e.want = w
		if w.Hold {
			e.state = held(e.state)
		}
	}
	for target, e := range m.entries {
		if !mentioned[target] {
			m.cutOff(e)
			delete(m.entries, target)
		}
	}
}

func (m *model) cutOff(e *entry) {
	if cancel := m.cancel[e]; cancel != nil {
		cancel()
	}
}

// advance starts every call that is due, and sees to it that somebody comes back for the rest.
func (k *Keeper) advance(m *model) {
	if k.ended {
		return
	}
	due, wake := plan(sorted(m.entries), k.Clock.Now())
	for _, e := range due {
		ctx, cancel := context.WithCancel(context.Background())
		c, _ := next(e.state, e.want)
		e.state.busy = c
		m.cancel[e] = cancel
		w := e.want
		k.calls.Go(func() { k.run(ctx, m, e, c, w) })
	}
	if m.timer != nil {
		m.timer.Stop()
		m.timer = nil
	}
	if !wake.IsZero() {
		m.timer = k.Clock.AfterFunc(wake.Sub(k.Clock.Now()), func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.advance(m)
		})
	}
}

// run makes the call that an entry is busy with. What it was made for may have changed when it ends.
func (k *Keeper) run(ctx context.Context, m *model, e *entry, c call, w Want) {
	began := k.Clock.Now()
	var a answer
	if err := k.Enter(ctx, m.name.Namespace, func(ctx context.Context) { a = k.call(ctx, c, w) }); err != nil {
		a.err = &notMade{err}
	} else {
		k.Count(c.String(), a.err, k.Clock.Since(began))
	}

	k.mu.Lock()
	m.cancel[e]()
	delete(m.cancel, e)
	e.state = learn(e.state, w, c, a, k.Clock.Now())
	if e.want.URI != w.URI {
		e.state = e.state.wished() // nobody wants that any longer
	}
	if e.want.Hold {
		e.state = held(e.state)
	}
	known := m.entries[w.Target] == e
	if known {
		k.advance(m)
	}
	k.mu.Unlock()
	if known {
		k.Changed(m.name)
	}
}

func (k *Keeper) call(ctx context.Context, c call, w Want) answer {
	switch c {
	case ask:
		loaded, listed, err := k.Calls.Loaded(ctx, w.Address)
		return answer{err: err, found: loaded[w.Name], listed: listed}
	case load:
		return answer{err: k.Calls.Load(ctx, w.Address, w.Name, w.URI)}
	case unload:
		return answer{err: k.Calls.Unload(ctx, w.Address, w.Name)}
	}
	return answer{}
}
