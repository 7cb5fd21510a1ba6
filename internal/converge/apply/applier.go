// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// trustBorrowed is how long an account that somebody else made is believed to be there.
	trustBorrowed = 5 * time.Minute

	// leftoverWait is how long to wait for a predecessor's child that our cache does not show to be collected.
	leftoverWait = time.Second
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
	// Contested are the children that others keep changing, and who does. They are corrected only now and then.
	Contested map[string]string
	// Held are the children that would have been changed if the owner were not paused, sorted.
	Held []string

	// failingFor is how long no pass of this owner has been without a failure.
	failingFor time.Duration
}

// Writer is what an applier writes with. It cannot read.
type Writer interface {
	client.Writer
	client.SubResourceClientConstructor
}

// Applier writes children. Reader is uncached and used only to find out who holds a name that is taken.
type Applier struct {
	// Tally is told of every write.
	Tally tally.Counter

	writer Writer
	reader client.Reader
	scheme *runtime.Scheme
	recent *recent.Store
	clock  clock.PassiveClock
	memory *memory
	brake  *brake
}

// NewApplier returns an applier. Its reader must not be a cache.
func NewApplier(writer Writer, reader client.Reader, scheme *runtime.Scheme, store *recent.Store, c clock.PassiveClock) *Applier {
	return &Applier{writer: writer, reader: reader, scheme: scheme, recent: store, clock: c, memory: newMemory(), brake: newBrake()}
}

// Newest returns the later of what the cache has under a key (nil for nothing) and what this applier wrote there.
func (a *Applier) Newest(key recent.Key, cached client.Object) client.Object {
	newest, _ := a.recent.Newest(key, cached)
	return newest
}

// Forget drops what is remembered about the children of an owner that no longer exists.
func (a *Applier) Forget(owner types.UID) {
	a.memory.dropOwner(owner)
	a.brake.dropOwner(owner)
}

// All brings the children of owner to the plan. Children fail one by one: the others are applied all the same.
// What the owner has and the plan does not name is taken away last, unless a failure will pass by itself: then the next
// pass does it.
func (a *Applier) All(ctx context.Context, owner client.Object, plan Plan, observed Children) Result {
	result := Result{Live: Children{}}
	wanted := map[recent.Key]bool{}
	p := pass{owner: owner, isGoing: sync.OnceValues(func() (bool, error) { return a.isGoing(ctx, owner) })}
	for _, stage := range plan {
		outcomes := make([]outcome, len(stage))
		var running sync.WaitGroup
		free := make(chan struct{}, parallel)
		for i, intent := range stage {
			wanted[intent.Key] = true
			free <- struct{}{}
			running.Go(func() {
				outcomes[i] = a.one(ctx, p, intent, observed[intent.Key]).unlessEnding()
				<-free
			})
		}
		running.Wait()
		for i, intent := range stage {
			result.take(intent.Key, outcomes[i])
		}
		a.contest(stage, &result)
	}
	if !result.passing() {
		a.prune(ctx, owner, wanted, observed, &result)
	}
	result.failingFor = a.memory.failing(owner.GetUID(), len(result.Failures) > 0, a.clock.Now())
	slices.SortFunc(result.Failures, func(x, y Failure) int { return cmp.Compare(x.Key.String(), y.Key.String()) })
	return result
}

// pass is one call of All.
type pass struct {
	owner client.Object
	// isGoing tells whether the owner is on its way out. However many children need to know, the API server is asked once.
	isGoing func() (bool, error)
}

// outcome is what became of one intent.
type outcome struct {
	live   client.Object
	wake   time.Duration
	failed error
}

// isAnswer tells whether something was written: what was put off, or found to be no longer wanted, has no answer of the API server.
func (o outcome) isAnswer(before client.Object) bool {
	return o.failed == nil && o.live != nil && o.live != before
}

// unlessEnding drops the refusal to make something in a namespace that is being deleted. Nothing is wrong, and soon there is
// nobody left to tell.
func (o outcome) unlessEnding() outcome {
	if apierrors.HasStatusCause(o.failed, corev1.NamespaceTerminatingCause) {
		o.failed = nil
	}
	return o
}

func (r *Result) take(k recent.Key, o outcome) {
	if o.live != nil {
		r.Live[k] = o.live
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

func (a *Applier) one(ctx context.Context, p pass, intent Intent, cached client.Object) outcome {
	live, wake := a.recent.Newest(intent.Key, cached)
	if intent.waits && live != nil {
		return outcome{live: live, wake: wake}
	}
	seen := a.memory.get(p.owner.GetUID(), intent.Key)
	verdict := judge(intent, p.owner, live, seen)
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
		a.memory.put(p.owner.GetUID(), intent.Key, intent.Hash, live)
		return outcome{live: live, wake: wake}
	case goneFirst:
		return outcome{wake: wake}
	case notOurs:
		return outcome{failed: &NameTakenError{Key: intent.Key, Holder: holder(live)}}
	}
	if wait := a.patient(ctx, p.owner, intent, live, seen); wait > 0 {
		return outcome{live: live, wake: wait}
	}
	out := a.act(ctx, p, intent, live, verdict)
	if out.isAnswer(live) && seen.uid != "" && !intent.belongs.IsShared() {
		a.brake.wrote(intent.Key, change{owner: p.owner.GetUID(), word: word(p.owner), before: seen.hash, hash: intent.Hash}, a.clock.Now())
	}
	return out
}

// act does what a verdict asks for.
func (a *Applier) act(ctx context.Context, p pass, intent Intent, live client.Object, v verdict) outcome {
	switch v {
	case adopt:
		return a.adopt(ctx, p, intent, live)
	case create:
		return a.create(ctx, p, intent)
	default:
		out := a.update(ctx, p, intent, live)
		if out.failed != nil {
			out.live = live // a change that was refused does not undo what is there
		}
		return out
	}
}

// create makes a child of which none is known.
func (a *Applier) create(ctx context.Context, p pass, intent Intent) outcome {
	seen := a.memory.get(p.owner.GetUID(), intent.Key)
	if seen.uid != "" || wasJudged(p.owner) {
		// It was there, as far as anybody knows. Whoever took it away may be taking the owner away, too.
		if going, err := p.isGoing(); going || err != nil {
			return outcome{failed: err}
		}
	}
	switch {
	case intent.belongs.IsMadeOnce():
		return a.once(ctx, p, intent)
	case !seen.borrowed.IsZero() && a.clock.Since(seen.borrowed) < trustBorrowed:
		return outcome{}
	case seen.stranger || intent.belongs == belonging.Borrowed:
		// The name is taken, or may be by something that is to be used as it is: look before touching it.
		return a.found(ctx, p, intent, nil)
	}
	return a.first(ctx, p, intent)
}

// wasJudged tells whether the status of an owner is about its present spec. What it has none of then was there before, unless it
// could not be made.
func wasJudged(owner client.Object) bool {
	judged, ok := owner.(interface{ GetObservedGeneration() int64 })
	return ok && judged.GetObservedGeneration() > 0 && judged.GetObservedGeneration() == owner.GetGeneration()
}

// first applies an intent of which no child is known. It does not force: a conflict means that a stranger has the name.
func (a *Applier) first(ctx context.Context, p pass, intent Intent) outcome {
	answer, err := a.patch(ctx, intent, intent.encoded)
	switch {
	case apierrors.IsConflict(err), apierrors.IsInvalid(err):
		return a.found(ctx, p, intent, err)
	case err != nil:
		return outcome{failed: fmt.Errorf("create %s: %w", intent.Key, err)}
	}
	a.Tally.Wrote(ctx, intent.Key.Kind, tally.Created)
	known := a.memory.get(p.owner.GetUID(), intent.Key).uid
	switch {
	case intent.belongs.IsShared() && givenToOne(intent, answer):
		return a.update(ctx, p, intent, answer)
	case answer.GetUID() != known && hadAnotherMaker(answer, p.owner.GetUID()):
		return a.release(ctx, p.owner, intent, answer)
	}
	return a.unmixed(ctx, p, intent, answer)
}

// found deals with an object that exists although the cache does not have it: it is new, it lost our label, or it is
// somebody else's. Refused is how the server answered a first apply, nil if none was sent.
func (a *Applier) found(ctx context.Context, p pass, intent Intent, refused error) outcome {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(intent.gvk)
	err := a.reader.Get(ctx, intent.Key.NamespacedName, live)
	switch {
	case apierrors.IsNotFound(err) && refused != nil:
		return outcome{failed: fmt.Errorf("create %s: %w", intent.Key, refused)}
	case apierrors.IsNotFound(err):
		return a.first(ctx, p, intent)
	case err != nil:
		return outcome{failed: fmt.Errorf("read %s: %w", intent.Key, err)}
	case isLeftover(intent, p.owner, live) || live.GetDeletionTimestamp() != nil:
		return outcome{wake: leftoverWait}
	case mayWrite(intent, p.owner, live):
		return a.update(ctx, p, intent, live)
	case intent.belongs == belonging.Borrowed:
		a.memory.set(p.owner.GetUID(), intent.Key, state{borrowed: a.clock.Now()})
		return outcome{}
	}
	a.memory.set(p.owner.GetUID(), intent.Key, state{stranger: true})
	return outcome{failed: &NameTakenError{Key: intent.Key, Holder: holder(live)}}
}

// once creates a child and takes it as it is if somebody was faster. It is a plain create, because an apply could lay
// an owner reference on somebody's data.
func (a *Applier) once(ctx context.Context, p pass, intent Intent) outcome {
	// Not typed: that would also send what nobody set.
	u := &unstructured.Unstructured{}
	err := u.UnmarshalJSON(intent.encoded)
	if err == nil {
		err = a.writer.Create(ctx, u, client.FieldOwner(names.FieldManager))
	}
	if apierrors.IsAlreadyExists(err) {
		return outcome{}
	}
	if err != nil {
		return outcome{failed: fmt.Errorf("create %s: %w", intent.Key, err)}
	}
	a.Tally.Wrote(ctx, intent.Key.Kind, tally.Created)
	answer, err := a.blank(intent)
	if err == nil && a.scheme.Recognizes(intent.gvk) {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, answer)
	}
	if err != nil {
		return outcome{failed: fmt.Errorf("decode %s: %w", intent.Key, err)}
	}
	return a.answered(p.owner, intent, answer)
}

// update changes a child that is ours.
func (a *Applier) update(ctx context.Context, p pass, intent Intent, live client.Object) outcome {
	if !refersTo(live, p.owner.GetUID()) {
		if going, err := p.isGoing(); going || err != nil {
			return outcome{live: live, failed: err}
		}
	}
	if err := a.inherit(ctx, intent, live); err != nil {
		return outcome{live: live, failed: fmt.Errorf("take %s over from the reference: %w", intent.Key, err)}
	}
	answer, err := a.force(ctx, intent, live)
	if err != nil {
		return a.refused(ctx, p, refusal{intent: intent, live: live, err: err})
	}
	a.Tally.Wrote(ctx, intent.Key.Kind, whyUpdated(intent, p.owner, live))
	return a.answered(p.owner, intent, answer)
}

// whyUpdated tells a wish of ours from somebody else's deed.
func whyUpdated(intent Intent, owner, live client.Object) tally.Reason {
	switch {
	case live.GetAnnotations()[names.AnnotationAppliedHash] != intent.Hash:
		return tally.Changed
	case !refersTo(live, owner.GetUID()):
		return tally.Adopted
	}
	return tally.Drifted
}

// force applies an intent and takes over whatever fields of it others have changed.
func (a *Applier) force(ctx context.Context, intent Intent, live client.Object) (client.Object, error) {
	encoded := intent.encoded
	if intent.belongs.IsShared() {
		joined, err := joinOwners(intent, live)
		if err != nil {
			return nil, err
		}
		encoded = joined
	}
	answer, err := a.patch(ctx, intent, encoded, client.ForceOwnership)
	if !apierrors.IsInvalid(err) {
		return answer, err
	}
	without, emptied, failed := withoutEmpty(encoded)
	if failed != nil || !emptied {
		return nil, errors.Join(err, failed)
	}
	if _, err := a.patch(ctx, intent, without, client.ForceOwnership); err != nil {
		return nil, err
	}
	return a.patch(ctx, intent, encoded, client.ForceOwnership)
}

// patch applies an object as it is encoded, and returns the server's answer in the type that the caches use.
func (a *Applier) patch(ctx context.Context, intent Intent, encoded []byte, more ...client.PatchOption) (client.Object, error) {
	answer, err := a.blank(intent)
	if err != nil {
		return nil, err
	}
	options := append([]client.PatchOption{client.FieldOwner(names.FieldManager)}, more...)
	if err := a.writer.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, encoded), options...); err != nil {
		return nil, err
	}
	return answer, nil
}

// blank is an object of an intent's kind and name. Kinds unknown to the scheme are unstructured.
func (a *Applier) blank(intent Intent) (client.Object, error) {
	obj := client.Object(&unstructured.Unstructured{})
	if a.scheme.Recognizes(intent.gvk) {
		made, err := a.scheme.New(intent.gvk)
		if err != nil {
			return nil, fmt.Errorf("make a %s: %w", intent.gvk.Kind, err)
		}
		typed, ok := made.(client.Object)
		if !ok {
			return nil, errors.New("kind " + intent.gvk.Kind + " has no metadata")
		}
		obj = typed
	} else {
		obj.GetObjectKind().SetGroupVersionKind(intent.gvk)
	}
	obj.SetName(intent.Key.Name)
	obj.SetNamespace(intent.Key.Namespace)
	return obj, nil
}

// answered remembers what the server made of a request.
func (a *Applier) answered(owner client.Object, intent Intent, answer client.Object) outcome {
	a.recent.Wrote(intent.Key, answer)
	a.memory.put(owner.GetUID(), intent.Key, intent.Hash, answer)
	return outcome{live: answer}
}
