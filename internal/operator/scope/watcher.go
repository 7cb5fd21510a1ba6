// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// trust is how long passes may run after the API server was last asked for all Leases. A watch can run behind without
	// anybody noticing; an answer cannot. It is well below the time that a holder waits for one who never answers.
	trust = 5 * time.Second
	// glance is how often somebody looks whether passes need more time.
	glance = trust / 4
	// askTimeout bounds a request.
	askTimeout = 3 * time.Second
	// askAgain is the pause after a request that failed.
	askAgain = time.Second
)

// WatcherOptions are what a Watcher needs.
type WatcherOptions struct {
	// Elected is closed when this process leads, or at once where there is no leader election. A standby cannot tell
	// whether passes of the leader are under way, so it acknowledges nothing.
	Elected <-chan struct{}

	// Informers hold Leases as Selected says.
	Informers cache.Informers
	// Reader asks the API server and no cache.
	Reader client.Reader
	Writer client.Writer
	Clock  clock.WithDelayedExecution
	Log    logr.Logger
}

// Watcher keeps the cluster-wide operator out of namespaces that have an operator of their own.
type Watcher struct {
	WatcherOptions
	bell

	gate *gate
	kick chan struct{}
	// asking lets one pass ask for all.
	asking sync.Mutex

	// failing and pause belong to Start: whether the last request failed, and until when none is made because of it.
	failing bool
	pause   time.Time

	mu        sync.Mutex
	tenancies map[string]tenancy
	// listed is the version of the last answer to a list. The watch may bring what is older.
	listed string
}

// NewWatcher returns a Watcher, to be added to a manager.
func NewWatcher(o WatcherOptions) *Watcher {
	return &Watcher{WatcherOptions: o, gate: newGate(o.Clock), kick: make(chan struct{}, 1), tenancies: map[string]tenancy{}}
}

// NeedLeaderElection is false: a standby knows the Leases when it becomes the leader, and admission asks every replica.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Excluded tells whether a namespace has an operator of its own.
func (w *Watcher) Excluded(namespace string) bool { return w.gate.taken(namespace) }

// Leases are the namespaces that have an operator of their own.
func (w *Watcher) Leases() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	leases := map[string]string{}
	for namespace := range w.tenancies {
		if w.gate.taken(namespace) {
			leases[namespace] = StateExcluded
		}
	}
	return leases
}

// Guard lets passes through in namespaces without an operator of their own.
func (w *Watcher) Guard(next reconcile.Reconciler) reconcile.Reconciler { return guard(w.enter, next) }

// enter admits a pass if the API server said a moment ago that nobody else claims the namespace.
func (w *Watcher) enter(ctx context.Context, namespace string) (*pass, error) {
	if left, _ := w.gate.remaining(); left < trust/2 {
		if err := w.confirm(ctx); err != nil {
			return nil, fmt.Errorf("make sure that no other operator works in namespace %s: %w", namespace, err)
		}
	}
	p := w.gate.enter(ctx, namespace)
	if p == nil && !w.gate.taken(namespace) {
		return nil, errLapsed // this process was held up, or the namespace was given back in between: once more
	}
	return p, nil
}

// confirm asks for all Leases, unless somebody else just did.
func (w *Watcher) confirm(ctx context.Context) error {
	w.asking.Lock()
	defer w.asking.Unlock()
	if left, _ := w.gate.remaining(); left >= trust/2 {
		return nil
	}
	return w.ask(ctx)
}

// ask asks the API server for all Leases. Passes may run for a while after the moment of the question, because a Lease
// that was made before it is in the answer.
func (w *Watcher) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	start := w.Clock.Now()
	var all coordinationv1.LeaseList
	if err := w.Reader.List(ctx, &all, client.MatchingFields{"metadata.name": names.ScopeLease}); err != nil {
		return fmt.Errorf("list Leases %s: %w", names.ScopeLease, err)
	}
	w.learn(&all)
	w.gate.extend(start.Add(trust))
	return nil
}

// learn folds in the answer to a list.
func (w *Watcher) learn(all *coordinationv1.LeaseList) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listed = all.ResourceVersion
	there := map[string]bool{}
	for i := range all.Items {
		there[all.Items[i].Namespace] = true
		w.claimed(all.Items[i].Namespace, read(&all.Items[i]))
	}
	for namespace, t := range w.tenancies {
		if !there[namespace] && t.absentFrom(all.ResourceVersion) {
			w.deleted(namespace, t.lease.claim)
		}
	}
	w.wake()
}

// observe folds in what the watch brings. A UID that was deleted does not come back, so that is always news.
func (w *Watcher) observe(lease *coordinationv1.Lease, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case gone:
		w.deleted(lease.Namespace, read(lease))
	case w.listed == "" || older(w.listed, lease.ResourceVersion):
		w.claimed(lease.Namespace, read(lease))
	}
	w.wake()
}

// claimed leaves a namespace at once. That one is free is for the loop to say.
func (w *Watcher) claimed(namespace string, c claim) {
	now := w.Clock.Now()
	t := w.tenancies[namespace].seen(c, now)
	w.tenancies[namespace] = t
	if t.free().After(now) && w.gate.take(namespace) {
		w.Log.Info("The namespace is left to an operator of its own", "namespace", namespace, "holder", c.holder)
	}
}

// deleted notes that a Lease is gone, and forgets it where it meant nothing.
func (w *Watcher) deleted(namespace string, c claim) {
	t, known := w.tenancies[namespace]
	if !known {
		return
	}
	t = t.removed(c, w.Clock.Now())
	w.tenancies[namespace] = t
	if t.lease == nil && !w.gate.taken(namespace) {
		delete(w.tenancies, namespace)
	}
}

func (w *Watcher) wake() {
	select {
	case w.kick <- struct{}{}:
	default: // it is awake
	}
}

// Start follows the Leases until the context ends.
func (w *Watcher) Start(ctx context.Context) error {
	stop, err := follow(ctx, w.Informers, w.observe)
	if err != nil {
		return err
	}
	defer stop()
	elected := w.Elected
	for {
		timer := w.Clock.NewTimer(w.turn(ctx))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-elected:
			elected = nil
		case <-w.kick:
		case <-w.gate.left:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// turn does what is due and returns when to look again.
func (w *Watcher) turn(ctx context.Context) time.Duration {
	now := w.Clock.Now()
	if now.Before(w.pause) {
		return w.pause.Sub(now)
	}
	due, next := w.due(now)
	err := w.giveBack(ctx, due.free)
	for _, namespace := range due.waiting {
		if err == nil {
			err = w.acknowledge(ctx, namespace)
		}
	}
	if left, busy := w.gate.remaining(); err == nil && busy && left < trust/2 {
		err = w.confirm(ctx)
	}
	w.noteFailure(ctx, err)
	if err != nil {
		return askAgain
	}
	return min(next, glance)
}

// noteFailure logs the first failure in a row.
func (w *Watcher) noteFailure(ctx context.Context, err error) {
	if err != nil && !w.failing && ctx.Err() == nil {
		w.Log.Error(err, "A request about Leases of other operators failed")
	}
	w.failing = err != nil
	if err != nil {
		w.pause = w.Clock.Now().Add(askAgain)
	}
}

// duties are namespaces in which something has to be done.
type duties struct {
	// free have a claim that ended, waiting have a holder to whom nobody said that the namespace is let go.
	free    []string
	waiting []string
}

// due returns what has to be done now, and when to look again.
func (w *Watcher) due(now time.Time) (duties, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var d duties
	next := time.Duration(1<<63 - 1)
	for namespace, t := range w.tenancies {
		if !w.gate.taken(namespace) {
			continue
		}
		left := t.free().Sub(now)
		if left <= 0 {
			d.free = append(d.free, namespace)
			continue
		}
		next = min(next, left)
		at, empty := w.gate.quiet(namespace)
		switch {
		case !t.waits() || !empty || !w.leads():
		case at.After(now):
			next = min(next, at.Sub(now))
		default:
			d.waiting = append(d.waiting, namespace)
		}
	}
	return d, next
}

func (w *Watcher) leads() bool {
	select {
	case <-w.Elected:
		return true
	default:
		return false
	}
}

// giveBack opens namespaces whose claim ended, after the API server was asked whether that is so: what looks like the
// end of a Lease may be the end of a watch.
func (w *Watcher) giveBack(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		return nil
	}
	w.asking.Lock()
	defer w.asking.Unlock()
	asked := w.Clock.Now()
	if err := w.ask(ctx); err != nil {
		return err
	}
	for _, namespace := range namespaces {
		if w.reopen(namespace, asked) {
			w.ring(namespace)
		}
	}
	return nil
}

// reopen lets passes into a namespace that was free when it was asked about.
func (w *Watcher) reopen(namespace string, asked time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tenancies[namespace]
	if t.free().After(asked) || !w.gate.give(namespace) {
		return false
	}
	if t.lease == nil {
		delete(w.tenancies, namespace)
		w.Log.Info("The namespace is taken over: the Lease was deleted", "namespace", namespace)
		return true
	}
	w.Log.Info("The namespace is taken over: the Lease was not renewed", "namespace", namespace, "holder", t.lease.holder)
	return true
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=dynamo-operator-namespace-scope,verbs=patch,roleName=cluster-wide

// acknowledge tells the holder that nothing of this operator is under way in its namespace. It is about the Lease as it
// was seen: a claim that has changed hands since is looked at again.
func (w *Watcher) acknowledge(ctx context.Context, namespace string) error {
	w.mu.Lock()
	seen := w.tenancies[namespace].lease
	w.mu.Unlock()
	if seen == nil {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": seen.uid, "resourceVersion": seen.version, "annotations": map[string]string{names.AnnotationReleasedTo: seen.holder},
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	lease.Name, lease.Namespace = names.ScopeLease, namespace
	err = w.Writer.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(names.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch tells what it is now
	}
	if err != nil {
		return fmt.Errorf("acknowledge the Lease %s in namespace %s: %w", names.ScopeLease, namespace, err)
	}
	w.observe(lease, false)
	w.Log.Info("The namespace was let go", "namespace", namespace, "holder", seen.holder)
	return nil
}
