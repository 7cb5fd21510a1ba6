// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// parallel bounds the requests one reconcile has in flight. More than this only queues up in the API server.
const parallel = 8

// Children are the owner's children as the cache has them.
type Children map[recent.Key]client.Object

// Plan is everything an owner wants, in stages: a stage starts when every request of the one before has been answered.
type Plan [][]Intent

// Failure is a child that could not be brought to what is wanted.
type Failure struct {
	Key recent.Key
	Err error
}

// Result is what the world looks like after a plan was applied.
type Result struct {
	// Live holds the newest known state of every wanted child: the server's answer where a request was made, the
	// cache otherwise. A status computed from it never rests on counts from before our own write.
	Live Children
	// Failures are sorted by key.
	Failures []Failure
	// Wake asks for another pass by then, 0 for none.
	Wake time.Duration
	// Writes counts the requests that were sent.
	Writes int
}

// Applier writes children. Reader is uncached and used only to find out who holds a name that is taken.
type Applier struct {
	writer client.Writer
	reader client.Reader
	scheme *runtime.Scheme
	recent *recent.Store
	memory *memory
}

// NewApplier returns an applier. Its reader must not be a cache.
func NewApplier(writer client.Writer, reader client.Reader, scheme *runtime.Scheme, store *recent.Store) *Applier {
	return &Applier{writer: writer, reader: reader, scheme: scheme, recent: store, memory: newMemory()}
}

// Forget drops what is remembered about the children of an owner that no longer exists.
func (a *Applier) Forget(owner types.UID) { a.memory.dropOwner(owner) }

// All brings the children of owner to the plan. Children fail one by one: the others are applied all the same.
// What the owner controls and the plan does not name is deleted last, and only if nothing failed.
func (a *Applier) All(ctx context.Context, owner client.Object, plan Plan, observed Children) Result {
	result := Result{Live: Children{}}
	wanted := map[recent.Key]bool{}
	for _, stage := range plan {
		outcomes := make([]outcome, len(stage))
		var group errgroup.Group
		group.SetLimit(parallel)
		for i, intent := range stage {
			wanted[intent.Key] = true
			group.Go(func() error {
				outcomes[i] = a.one(ctx, owner, intent, observed[intent.Key])
				return nil
			})
		}
		group.Wait() //nolint:errcheck // outcomes carry the errors, so that one failure cancels no other request
		for i, intent := range stage {
			result.take(intent.Key, outcomes[i])
		}
	}
	if len(result.Failures) == 0 {
		a.prune(ctx, owner, wanted, observed, &result)
	}
	slices.SortFunc(result.Failures, func(x, y Failure) int { return cmp.Compare(x.Key.String(), y.Key.String()) })
	return result
}

// outcome is what became of one intent.
type outcome struct {
	live   client.Object
	wrote  bool
	wake   time.Duration
	failed error
}

func (r *Result) take(k recent.Key, o outcome) {
	if o.live != nil {
		r.Live[k] = o.live
	}
	if o.wrote {
		r.Writes++
	}
	if o.failed != nil {
		r.Failures = append(r.Failures, Failure{Key: k, Err: o.failed})
	}
	r.wakeBy(o.wake)
}

func (r *Result) wakeBy(d time.Duration) {
	if d > 0 && (r.Wake == 0 || d < r.Wake) {
		r.Wake = d
	}
}

func (a *Applier) one(ctx context.Context, owner client.Object, intent Intent, cached client.Object) outcome {
	live, wake := a.recent.Newest(intent.Key, cached)
	verdict := judge(intent, owner.GetUID(), live, a.memory.get(owner.GetUID(), intent.Key))
	if verdict == unverified {
		same, err := verify(intent, live)
		if err != nil {
			return outcome{live: live, failed: fmt.Errorf("read %s: %w", intent.Key, err)}
		}
		verdict = update
		if same {
			verdict = nothing
		}
	}
	switch verdict {
	case nothing:
		a.memory.put(owner.GetUID(), intent.Key, intent.Hash, live)
		return outcome{live: live, wake: wake}
	case goneFirst:
		return outcome{wake: wake}
	case notOurs:
		return outcome{failed: &NameTakenError{Key: intent.Key, Holder: holder(live)}}
	case create:
		return a.make(ctx, owner, intent)
	default:
		return a.send(ctx, owner, intent, live, client.ForceOwnership)
	}
}

// make brings a child into being of which none is known.
func (a *Applier) make(ctx context.Context, owner client.Object, intent Intent) outcome {
	switch intent.mode {
	case Once:
		return a.once(ctx, owner, intent)
	case Borrowed:
		return a.borrow(ctx, owner, intent)
	default:
		return a.first(ctx, owner, intent)
	}
}

// first applies an intent of which no child is known. It does not force: a conflict means that a stranger has the name.
func (a *Applier) first(ctx context.Context, owner client.Object, intent Intent) outcome {
	known := a.memory.get(owner.GetUID(), intent.Key).uid
	out := a.send(ctx, owner, intent, nil)
	if out.failed == nil {
		if out.live.GetUID() != known && hadAnotherMaker(out.live, owner.GetUID()) {
			return a.release(ctx, owner, intent, out.live)
		}
		return out
	}
	if !apierrors.IsConflict(out.failed) && !apierrors.IsInvalid(out.failed) {
		return out
	}
	found, err := a.lookUp(ctx, intent)
	if err != nil {
		return out // an invalid child, or one that is gone again: the first answer is the one to report
	}
	controller := metav1.GetControllerOf(found)
	switch {
	case mayWrite(intent.mode, owner.GetUID(), found) && (controller != nil || madeByOperator(found)):
		return a.send(ctx, owner, intent, found, client.ForceOwnership)
	case apierrors.IsInvalid(out.failed) && controller == nil:
		return out
	}
	return outcome{failed: &NameTakenError{Key: intent.Key, Holder: holder(found)}}
}

// borrow uses what is there, and makes it where nothing is. Whatever a stranger made is not even touched by a first
// apply, so the server is asked; the answer is remembered.
func (a *Applier) borrow(ctx context.Context, owner client.Object, intent Intent) outcome {
	if a.memory.get(owner.GetUID(), intent.Key).borrowed {
		return outcome{}
	}
	found, err := a.lookUp(ctx, intent)
	switch {
	case apierrors.IsNotFound(err):
		return a.first(ctx, owner, intent)
	case err != nil:
		return outcome{failed: fmt.Errorf("read %s: %w", intent.Key, err)}
	case madeByOperator(found):
		return a.send(ctx, owner, intent, found, client.ForceOwnership)
	}
	a.memory.borrow(owner.GetUID(), intent.Key)
	return outcome{live: found}
}

// once creates a child and takes it as it is if somebody was faster. It is a plain create, because an apply could lay
// an owner reference on somebody's data.
func (a *Applier) once(ctx context.Context, owner client.Object, intent Intent) outcome {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(intent.body)}
	err := a.writer.Create(ctx, u, client.FieldOwner(names.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		return outcome{wrote: true}
	}
	if err != nil {
		return outcome{wrote: true, failed: fmt.Errorf("create %s: %w", intent.Key, err)}
	}
	return a.answered(owner, intent, u)
}

func (a *Applier) lookUp(ctx context.Context, intent Intent) (*metav1.PartialObjectMetadata, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(intent.gvk)
	err := a.reader.Get(ctx, intent.Key.NamespacedName, found)
	return found, err
}

// send makes the one request that creates or changes a child. Live is what is known of it, nil for nothing.
func (a *Applier) send(ctx context.Context, owner client.Object, intent Intent, live client.Object, opts ...client.ApplyOption) outcome {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(intent.body)}
	if intent.mode.shared() && live != nil {
		joinOwners(u.Object, live)
	}
	opts = append(opts, client.FieldOwner(names.FieldManager))
	err := a.writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), opts...)
	if apierrors.IsInvalid(err) && live != nil && hasEmptyObject(intent.body) {
		err = a.sendEmptied(ctx, u, opts)
	}
	if err != nil {
		return outcome{wrote: true, failed: fmt.Errorf("apply %s: %w", intent.Key, err)}
	}
	return a.answered(owner, intent, u)
}

// answered remembers what the server made of a request.
func (a *Applier) answered(owner client.Object, intent Intent, u *unstructured.Unstructured) outcome {
	answer, err := a.typed(intent, u)
	if err != nil {
		return outcome{wrote: true, failed: err}
	}
	a.recent.Wrote(intent.Key, answer)
	a.memory.put(owner.GetUID(), intent.Key, intent.Hash, answer)
	return outcome{live: answer, wrote: true}
}

// typed gives the server's answer the type that the caches use. Kinds unknown to the scheme stay unstructured.
func (a *Applier) typed(intent Intent, u *unstructured.Unstructured) (client.Object, error) {
	if !a.scheme.Recognizes(intent.gvk) {
		return u, nil
	}
	obj, err := a.scheme.New(intent.gvk)
	if err != nil {
		return nil, fmt.Errorf("make a %s: %w", intent.gvk.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, fmt.Errorf("decode %s: %w", intent.Key, err)
	}
	typed, ok := obj.(client.Object)
	if !ok {
		return nil, errors.New("kind " + intent.gvk.Kind + " has no metadata")
	}
	return typed, nil
}
