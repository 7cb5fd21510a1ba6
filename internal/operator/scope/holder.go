// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// releaseTimeout bounds what is done about the Lease when the operator stops.
const releaseTimeout = 5 * time.Second

// HolderOptions are what a Holder needs.
type HolderOptions struct {
	// Namespace is the one that the operator is restricted to.
	Namespace string
	// Version is that of the operator, shown in the Lease.
	Version string
	Timing  Timing
	// Election names the leader election that is won when the Holder starts, as namespace/name, and is empty without
	// one. A Lease that a predecessor of the same election left is taken at once, and left to a successor.
	Election string
	// Pod identifies the pod that this process runs in, if it is the only operator there. A Lease that an earlier
	// process of the same pod left is taken at once. Empty where that is not known.
	Pod string

	// Informers hold Leases as Selected says.
	Informers cache.Informers
	// Reader asks the API server and no cache.
	Reader client.Reader
	Writer client.Writer
	Clock  clock.WithDelayedExecution
	Log    logr.Logger
}

// Holder claims a namespace for the operator that is restricted to it.
type Holder struct {
	HolderOptions
	bell

	identity string
	gate     *gate

	// state and object, the Lease as it was when it was last heard of, belong to Start.
	state  holding
	object *coordinationv1.Lease
	// said is the failure since the last answer, if there was one.
	said string

	mail  chan struct{}
	mu    sync.Mutex
	inbox []news
}

// news is a change of the Lease that the informer saw.
type news struct {
	lease *coordinationv1.Lease
	gone  bool
}

// NewHolder returns a Holder, to be added to a manager.
func NewHolder(o HolderOptions) (*Holder, error) {
	if errs := o.Timing.Validate(field.NewPath("namespaceScope", "leaseDuration"), field.NewPath("namespaceScope", "renewInterval")); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find out the name of this host: %w", err)
	}
	self := note{Holder: names.ScopeHolder(o.Version, host, string(uuid.NewUUID())), Election: o.Election, Pod: o.Pod}
	return &Holder{
		HolderOptions: o, identity: self.Holder, gate: newGate(o.Clock),
		state: holding{timing: o.Timing, self: self}, mail: make(chan struct{}, 1),
	}, nil
}

// NeedLeaderElection is true: of several replicas the leader holds the Lease, and a standby that ends leaves it alone.
func (h *Holder) NeedLeaderElection() bool { return true }

// Identity is what this instance calls itself in the Lease.
func (h *Holder) Identity() string { return h.identity }

// Working tells whether passes may run.
func (h *Holder) Working() bool {
	left, _ := h.gate.remaining()
	return left > 0
}

// Leases tells that the namespace is held, while it is.
func (h *Holder) Leases() map[string]string {
	if !h.Working() {
		return nil
	}
	return map[string]string{h.Namespace: StateHeld}
}

// Guard lets passes through while the Lease is ours and they can end before it does.
func (h *Holder) Guard(next reconcile.Reconciler) reconcile.Reconciler {
	return guard(func(ctx context.Context, namespace string) (*pass, error) { return h.gate.enter(ctx, namespace), nil }, next)
}

// Start claims the namespace and keeps it until the context ends, then lets it go. An error means that the operator
// must not work any longer.
func (h *Holder) Start(ctx context.Context) error {
	stop, err := follow(ctx, h.Informers, h.deliver)
	if err != nil {
		return err
	}
	defer stop()
	err = h.run(ctx)
	h.gate.close()
	if err != nil {
		return fmt.Errorf("hold namespace %s: %w", h.Namespace, err)
	}
	h.letGo(context.WithoutCancel(ctx))
	return nil
}

// run does one thing after the other until the context ends or there is nothing left to do.
func (h *Holder) run(ctx context.Context) error {
	for ctx.Err() == nil {
		h.readMail()
		now := h.Clock.Now()
		do, until := h.state.next(now)
		if do == actWait {
			h.await(ctx, until.Sub(now))
			continue
		}
		if err := h.do(ctx, do); err != nil {
			return err
		}
	}
	return nil
}

func (h *Holder) await(ctx context.Context, pause time.Duration) {
	timer := h.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-h.mail:
	case <-timer.C():
	}
}

func (h *Holder) do(ctx context.Context, do act) error {
	switch do {
	case actLook, actMake, actTake, actRenew:
		return h.ask(ctx, do)
	case actBegin:
		h.state.working = true
		h.gate.extend(h.state.deadline())
		h.Log.Info("Work begins", "namespace", h.Namespace, "acknowledged", h.state.lease.acknowledged())
		h.ring(h.Namespace)
	case actYield:
		h.gate.close()
		h.state = h.state.yielded()
		h.Log.Info("Work is interrupted: the Lease is gone", "namespace", h.Namespace)
	case actLost:
		h.gate.close()
		return fmt.Errorf("%s has taken the Lease %s: only one operator may be restricted to a namespace", h.state.lease.holder, names.ScopeLease)
	case actLate:
		h.gate.close()
		return fmt.Errorf("the Lease %s was not renewed within %s: %s", names.ScopeLease, h.Timing.patience(),
			cmp.Or(h.said, "the API server did not answer"))
	}
	return nil
}

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create,roleName=restricted
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=dynamo-operator-namespace-scope,verbs=delete;get;update,roleName=restricted

// ask sends one request about the Lease. What somebody else changed meanwhile is looked at before the next.
func (h *Holder) ask(ctx context.Context, do act) error {
	limited, cancel := context.WithTimeout(ctx, h.Timing.request())
	defer cancel()
	start := h.Clock.Now()
	lease, err := h.send(limited, do, start)
	if err != nil {
		return h.failed(ctx, do, err)
	}
	h.said = ""
	h.answered(do, lease, start)
	return nil
}

func (h *Holder) send(ctx context.Context, do act, start time.Time) (*coordinationv1.Lease, error) {
	if do == actLook {
		return h.get(ctx)
	}
	lease := h.state.write(h.object, start)
	lease.Namespace = h.Namespace
	if do == actMake {
		return lease, h.Writer.Create(ctx, lease)
	}
	return lease, h.Writer.Update(ctx, lease)
}

// get reads the Lease, nil if there is none.
func (h *Holder) get(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := h.Reader.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: names.ScopeLease}, lease)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

func (h *Holder) answered(do act, lease *coordinationv1.Lease, start time.Time) {
	now := h.Clock.Now()
	before := h.state
	h.object = lease
	switch do {
	case actLook:
		h.state = h.state.seen(lease, now)
		if w, _ := h.state.wish(now); !h.state.held && w == actWait && !sameHolder(before, h.state) {
			h.Log.Info("Another operator holds the namespace, which is waited for", "namespace", h.Namespace, "holder", h.state.lease.holder)
		}
	case actMake, actTake:
		h.state = h.state.adopted(lease, start, now)
		h.Log.Info("The namespace is claimed", "namespace", h.Namespace, "as", h.identity, "settles", h.state.settled.Sub(now).String())
	default:
		h.state = h.state.renewedBy(lease, start, now)
		if h.state.working {
			h.gate.extend(h.state.deadline())
		}
	}
}

func sameHolder(a, b holding) bool {
	return a.lease != nil && b.lease != nil && a.lease.holder == b.lease.holder
}

// failed notes that a request did not succeed. Only missing rights end the operator at once, because waiting does not
// bring them.
func (h *Holder) failed(ctx context.Context, do act, err error) error {
	h.state.known = false // also an error may have changed the Lease, if the answer was lost
	// Where the Lease can be made but is not found, its namespace is not there.
	changed := apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) && do != actMake
	if stopping := errors.Is(ctx.Err(), context.Canceled); stopping || changed {
		return nil
	}
	err = fmt.Errorf("%s Lease %s: %w", do, names.ScopeLease, err)
	if apierrors.IsForbidden(err) && !h.state.held {
		return err
	}
	h.state.pause = h.Clock.Now().Add(h.Timing.retry())
	if h.said == "" {
		h.Log.Error(err, "A request about the Lease failed", "namespace", h.Namespace)
	}
	h.said = err.Error()
	return nil
}

// deliver takes what the informer saw.
func (h *Holder) deliver(lease *coordinationv1.Lease, gone bool) {
	if lease.Namespace != h.Namespace {
		return
	}
	h.mu.Lock()
	h.inbox = append(h.inbox, news{lease: lease, gone: gone})
	h.mu.Unlock()
	select {
	case h.mail <- struct{}{}:
	default: // it is about to be read
	}
}

// readMail folds in what the informer saw. It runs behind answers of the server, so that older news are none.
func (h *Holder) readMail() {
	h.mu.Lock()
	inbox := h.inbox
	h.inbox = nil
	h.mu.Unlock()
	for _, n := range inbox {
		switch {
		case n.gone && h.object != nil && n.lease.UID == h.object.UID:
			h.object, h.state = nil, h.state.seen(nil, h.Clock.Now())
		case !n.gone && (h.object == nil || older(h.object.ResourceVersion, n.lease.ResourceVersion)):
			h.object, h.state = n.lease, h.state.seen(n.lease, h.Clock.Now())
		}
	}
}

// letGo ends the claim after the last pass: for a successor where there may be one, otherwise for the cluster-wide
// operator at once. What cannot be done in time is left to the end of the Lease.
func (h *Holder) letGo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := h.drained(ctx)
	for err == nil {
		h.readMail()
		if !h.state.known {
			if h.object, err = h.get(ctx); err != nil {
				break
			}
			h.state = h.state.seen(h.object, h.Clock.Now())
		}
		if h.object == nil || h.state.lease.holder != h.identity {
			return
		}
		if err = h.release(ctx); err == nil {
			h.Log.Info("The namespace is let go", "namespace", h.Namespace)
			return
		}
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			h.state.known, err = false, nil
		}
	}
	h.Log.Error(err, "The Lease was not let go and ends by itself", "namespace", h.Namespace)
}

// drained waits until no pass is in, and nothing of one is under way.
func (h *Holder) drained(ctx context.Context) error {
	for {
		at, empty := h.gate.quiet(h.Namespace)
		pause := at.Sub(h.Clock.Now())
		if empty && pause <= 0 {
			return nil
		}
		if !empty {
			pause = releaseTimeout
		}
		select {
		case <-ctx.Done():
			return errors.New("passes did not end in time")
		case <-h.gate.left:
		case <-h.Clock.After(pause):
		}
	}
}

// release writes or deletes the Lease, if it is still as we know it.
func (h *Holder) release(ctx context.Context) error {
	if h.Election != "" {
		return h.Writer.Update(ctx, h.state.release(h.object, h.Clock.Now()))
	}
	return h.Writer.Delete(ctx, h.object.DeepCopy(), client.Preconditions{UID: &h.object.UID, ResourceVersion: &h.object.ResourceVersion})
}
