// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statusio is the only writer of status and events. A status is compared before it is written, written once,
// and events follow the write: what a user reads in an event is already true in the object.
package statusio

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// progressEvery is how often progress inside one state is written. Transitions are written at once: a user waits
	// for "Ready", nobody waits for "3 of 8".
	progressEvery = time.Second

	// firstWord is how long the first status of an object may wait for something to tell. Whoever carries a workload out reports
	// within moments, and "not yet" is of no use to anybody until it has lasted. Until then the definitions say for new objects
	// that nobody has looked at them, so that no tool takes them for ready.
	firstWord = time.Second

	// afterConflict is how soon a status that met a newer object is computed again. It doubles while the cache lags, up
	// to lastConflict.
	afterConflict = 50 * time.Millisecond
	lastConflict  = 4 * time.Second

	// maxNote is what the API server takes of the text of an event.
	maxNote = 1024
)

// Event is one line for the users of an object, sent after the status that justifies it was stored.
type Event struct {
	Type   string // corev1.EventTypeNormal or EventTypeWarning
	Reason string
	Action string
	Note   string
}

// Change is a status to be stored.
type Change struct {
	Kind          schema.GroupKind
	Before, After client.Object // equal but for status; After must be a copy that the caller gives away
	// Was and Is are the conditions of both.
	Was, Is []metav1.Condition
	// Transition tells that something besides the conditions changed that is a state, not only how far it is.
	Transition bool
	// Unheard tells that nobody has reported yet on what was just made for the object, and that all of it was made.
	Unheard bool
	Events  []Event
}

func (c Change) isTransition() bool { return c.Transition || conditions.Transitioned(c.Was, c.Is) }

// Writer stores status and sends events.
type Writer struct {
	// Tally is told of every write, TimeToReady of every object that became ready and how long that took.
	Tally       tally.Counter
	TimeToReady func(kind string, took time.Duration)

	api    client.StatusClient
	events events.EventRecorder
	recent *recent.Store
	clock  clock.PassiveClock

	mu        sync.Mutex
	last      map[types.UID]time.Time
	unheard   map[types.UID]time.Time // since when a first status waits
	conflicts map[types.UID]time.Duration
	// unsure are the objects whose last write failed. It may have been carried out all the same, and a cache that does not show
	// that yet proves nothing. Nobody would hear of it later: changes of status wake no controller.
	unsure map[types.UID]bool
}

// NewWriter returns a writer.
func NewWriter(api client.StatusClient, recorder events.EventRecorder, store *recent.Store, c clock.PassiveClock) *Writer {
	return &Writer{
		api: api, events: recorder, recent: store, clock: c,
		last: map[types.UID]time.Time{}, unheard: map[types.UID]time.Time{}, conflicts: map[types.UID]time.Duration{}, unsure: map[types.UID]bool{},
	}
}

// Newest returns the later of the cached primary object and the one this writer stored last, so that a status is never
// compared with one from before our own write.
func (w *Writer) Newest(kind schema.GroupKind, cached client.Object) client.Object {
	newest, _ := w.recent.Newest(recent.KeyOf(kind, cached), cached)
	return newest
}

// Forget drops what is remembered about an object that no longer exists.
func (w *Writer) Forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
	delete(w.unheard, uid)
	delete(w.conflicts, uid)
	delete(w.unsure, uid)
}

// Write stores the change if there is one, or may be: after a write that failed, the same is sent again, which changes nothing or
// meets a newer object. A positive duration asks for another pass by then: the change was held back
// because there is no news in it yet, or mere progress, or it met a newer object.
func (w *Writer) Write(ctx context.Context, c Change) (time.Duration, error) {
	if !w.isUnsure(c.After.GetUID()) && equality.Semantic.DeepEqual(status(c.Before), status(c.After)) {
		return 0, nil
	}
	if wait := w.pace(c); wait > 0 {
		return wait, nil
	}
	if err := w.api.Status().Update(ctx, c.After, client.FieldOwner(names.FieldManager)); err != nil {
		if apierrors.IsConflict(err) {
			return w.conflicted(c.After.GetUID()), nil
		}
		if apierrors.IsNotFound(err) {
			return 0, nil // deleted meanwhile; nobody is left to read it
		}
		w.failed(c.After.GetUID())
		return 0, fmt.Errorf("write status of %s %q: %w", c.Kind.Kind, c.After.GetName(), err)
	}
	w.recent.Wrote(recent.KeyOf(c.Kind, c.After), c.After)
	w.written(c.After.GetUID())
	w.measure(ctx, c)
	for _, e := range c.Events {
		w.Tell(c.After, e)
	}
	return 0, nil
}

// status is what a change is about; the rest of an object is the same before and after.
func status(obj client.Object) any {
	return reflect.ValueOf(obj).Elem().FieldByName("Status").Interface()
}

// measure counts a change that was stored, and logs what it says that was not so before.
func (w *Writer) measure(ctx context.Context, c Change) {
	why := tally.Progress
	if c.isTransition() {
		why = tally.Transition
	}
	w.Tally.Wrote(ctx, c.Kind.Kind, why)
	log := logf.FromContext(ctx)
	for _, is := range c.Is {
		if was := conditions.Find(c.Was, is.Type); was == nil || was.Status != is.Status || was.Reason != is.Reason {
			log.Info("Condition changed", "type", is.Type, "status", is.Status, "reason", is.Reason, "message", is.Message)
		}
	}
	if w.TimeToReady != nil && conditions.Became(c.Was, c.Is, v1alpha1.ConditionReady, metav1.ConditionTrue) {
		since := c.After.GetCreationTimestamp().Time
		if was := conditions.Find(c.Was, v1alpha1.ConditionReady); was != nil {
			since = was.LastTransitionTime.Time
		}
		w.TimeToReady(c.Kind.Kind, w.clock.Since(since))
	}
}

// Tell sends an event that no status goes with, because its object is being deleted.
func (w *Writer) Tell(about client.Object, e Event) {
	w.events.Eventf(about, nil, e.Type, e.Reason, e.Action, "%s", strings.ToValidUTF8(e.Note[:min(len(e.Note), maxNote)], ""))
}

// pace returns how long a first status without news, or mere progress, has to wait.
func (w *Writer) pace(c Change) time.Duration {
	if c.Unheard && len(c.Was) == 0 {
		return w.await(c.After.GetUID())
	}
	if c.isTransition() {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[c.After.GetUID()]
	if !ok {
		return 0
	}
	return max(0, progressEvery-w.clock.Since(last))
}

// await returns how much of the time for a first word is left.
func (w *Writer) await(uid types.UID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.unheard[uid]; !ok {
		w.unheard[uid] = w.clock.Now()
	}
	return max(0, firstWord-w.clock.Since(w.unheard[uid]))
}

func (w *Writer) isUnsure(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unsure[uid]
}

func (w *Writer) failed(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsure[uid] = true
}

func (w *Writer) written(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unsure, uid)
	w.last[uid] = w.clock.Now()
	delete(w.unheard, uid)
	delete(w.conflicts, uid)
}

// conflicted returns how long to wait after one more conflict in a row.
func (w *Writer) conflicted(uid types.UID) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	wait := max(afterConflict, w.conflicts[uid])
	w.conflicts[uid] = min(2*wait, lastConflict)
	return wait
}

// Answer tells the work queue how to go on: with back-off after an error, else by the earlier of two wishes.
func Answer(result reconcile.Result, wake time.Duration, errs ...error) (reconcile.Result, error) {
	if err := errors.Join(errs...); err != nil {
		return reconcile.Result{}, err
	}
	if wake > 0 && (result.RequeueAfter == 0 || wake < result.RequeueAfter) {
		result.RequeueAfter = wake
	}
	return result, nil
}
