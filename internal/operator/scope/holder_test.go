// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestAHolderClaimsItsNamespaceAndBeginsWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, p := startHolder(t, holderOptions(t, ns))
	l := awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	form := regexp.MustCompile(`^namespace-restricted-operator-1\.2\.3_.+_[0-9a-f-]{36}$`)
	if !form.MatchString(*l.Spec.HolderIdentity) {
		t.Errorf("the holder is %q", *l.Spec.HolderIdentity)
	}
	if *l.Spec.LeaseDurationSeconds != 30 || l.Spec.AcquireTime == nil || l.Spec.RenewTime == nil {
		t.Errorf("the Lease is %s", describe(l))
	}
	awaitTimers(t, p, 1)
	p.clock.Step(renew - time.Second)
	awaitTimers(t, p, 1)
	if p.works(t, ns) || len(h.Leases()) > 0 {
		t.Error("work begins before the other side can have let go")
	}
	p.clock.Step(time.Second)
	p.awaitBell(t, ns)
	if !p.works(t, ns) || h.Leases()[ns] != scope.StateHeld {
		t.Error("work has not begun")
	}
	renewed := awaitLease(t, ns, "the renewal", func(now *coordinationv1.Lease) bool { return !now.Spec.RenewTime.Equal(l.Spec.RenewTime) })
	if !strings.Contains(renewed.Annotations[names.AnnotationScope], `"settled":true`) {
		t.Errorf("the Lease is %s", describe(renewed))
	}
}

func TestALivingLeaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, string){
		"until it ends":       func(*testing.T, string) {},
		"until it is deleted": remove,
		"until it is let go":  letGoByAnother,
		"until it claims nothing": func(t *testing.T, ns string) {
			t.Helper()
			l := lease(t, ns)
			l.Spec.LeaseDurationSeconds = nil
			if err := harness.Client(t).Update(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			referenceClaims(t, ns)
			h, p := startHolder(t, holderOptions(t, ns))
			awaitTimers(t, p, 1)
			p.clock.Step(duration - time.Second)
			referenceClaims(t, ns) // it lives
			p.clock.Step(time.Second)
			awaitTimers(t, p, 1)
			if !heldBy(reference)(lease(t, ns)) || p.works(t, ns) {
				t.Fatal("a living Lease was taken")
			}
			end(t, ns)
			limit := p.clock.Now().Add(duration)
			harness.Eventually(t, soon, "the claim", func() (bool, string) {
				if name == "until it ends" && p.clock.Now().Before(limit) {
					awaitTimers(t, p, 1)
					p.clock.Step(time.Second)
				}
				return heldBy(h.Identity())(lease(t, ns)), ""
			})
		})
	}
}

// awaitTimers waits until so many wait for the clock: a party for its next turn, and its gate.
func awaitTimers(t *testing.T, p *party, n int) {
	t.Helper()
	harness.Eventually(t, soon, "somebody waiting for the clock", func() (bool, string) { return p.clock.Waiters() >= n, "" })
}

// letGoByAnother has an instance of ours let the Lease go, as if it had had it all the time.
func letGoByAnother(t *testing.T, ns string) {
	t.Helper()
	l := lease(t, ns)
	l.Spec.HolderIdentity = new("another")
	l.Annotations = map[string]string{names.AnnotationScope: `{"holder":"another","election":"elsewhere/leader","released":true}`}
	if err := harness.Client(t).Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

func TestTheReferenceTakingTheLeaseEndsTheHolder(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, p := startHolder(t, holderOptions(t, ns))
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitWork(t, ns, true)
	pass := p.longPass(t, ns)
	referenceClaims(t, ns)
	pass.awaitEnd(t)
	if p.works(t, ns) {
		t.Error("a pass was let in after the Lease was lost")
	}
	if err := pass.leave(); err != nil {
		t.Errorf("the pass that was ended reports %v", err)
	}
	err := p.await()
	if err == nil || !strings.Contains(err.Error(), reference+" has taken the Lease") {
		t.Errorf("ended with %v", err)
	}
	if !heldBy(reference)(lease(t, ns)) {
		t.Error("the Lease of another was changed on the way out")
	}
}

func TestALeaseDeletedByHandInterruptsWork(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, p := startHolder(t, holderOptions(t, ns))
	first := awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	pass := p.longPass(t, ns)
	remove(t, ns)
	pass.awaitEnd(t)
	awaitLease(t, ns, "a new claim", func(l *coordinationv1.Lease) bool { return l.UID != first.UID && heldBy(h.Identity())(l) })
	if p.works(t, ns) {
		t.Error("work goes on without settling")
	}
	if err := pass.leave(); err != nil {
		t.Errorf("the pass that was ended reports %v", err)
	}
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	if err := p.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// broken is a writer that fails when it is down.
type broken struct {
	client.Writer

	down atomic.Bool
	sent atomic.Int32
}

func (b *broken) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if b.down.Load() {
		return errors.New("no connection")
	}
	return b.Writer.Delete(ctx, obj, opts...)
}

func (b *broken) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if b.down.Load() {
		b.sent.Add(1)
		return errors.New("no connection")
	}
	return b.Writer.Update(ctx, obj, opts...)
}

func TestFailingRenewalsEndWorkBeforeTheLease(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	writer := &broken{Writer: harness.Client(t)}
	o.Writer = writer
	h, p := startHolder(t, o)
	l := awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	l = awaitLease(t, ns, "the renewal", func(now *coordinationv1.Lease) bool { return !now.Spec.RenewTime.Equal(l.Spec.RenewTime) })
	writer.down.Store(true)
	pass := p.longPass(t, ns)
	for p.works(t, ns) {
		awaitTimers(t, p, 2)
		p.clock.Step(500 * time.Millisecond)
	}
	if at := p.clock.Now().Sub(l.Spec.RenewTime.Time); at > duration-5*time.Second || at < 2*renew {
		t.Errorf("work ended %s after the last renewal of a Lease of %s", at, duration)
	}
	pass.awaitEnd(t)
	_ = pass.leave()
	if err := p.await(); err == nil || !strings.Contains(err.Error(), "was not renewed within 25s") || !strings.Contains(err.Error(), "no connection") {
		t.Errorf("ended with %v", err)
	}
	if writer.sent.Load() < 3 {
		t.Errorf("only %d attempts were made", writer.sent.Load())
	}
}

func TestAStopLetsGoAfterTheLastPass(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, p := startHolder(t, holderOptions(t, ns))
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	pass := p.longPass(t, ns)
	stopped := make(chan error, 1)
	go func() { stopped <- p.stop() }()
	pass.awaitEnd(t)
	if l := lease(t, ns); l == nil {
		t.Fatal("the Lease is gone while a pass is under way")
	}
	if err := pass.leave(); err != nil {
		t.Errorf("the pass that was ended reports %v", err)
	}
	awaitTimers(t, p, 1)
	if l := lease(t, ns); l == nil {
		t.Fatal("the Lease is gone while something of the pass may be under way")
	}
	p.clock.Step(time.Second)
	if err := <-stopped; err != nil {
		t.Errorf("ended with %v", err)
	}
	if l := lease(t, ns); l != nil {
		t.Errorf("the Lease is left: %s", describe(l))
	}
}

// interrupted is a writer before whose last write something happens.
type interrupted struct {
	client.Writer

	now    atomic.Bool
	before func()
}

func (i *interrupted) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if i.now.Swap(false) {
		i.before()
	}
	return i.Writer.Delete(ctx, obj, opts...)
}

func (i *interrupted) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	if i.now.Swap(false) {
		i.before()
	}
	return i.Writer.Update(ctx, obj, opts...)
}

func TestALeaseThatChangesHandsIsNotLetGo(t *testing.T) {
	t.Parallel()
	for name, election := range map[string]string{"deleted": "", "handed over": "ns/leader"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			o := holderOptions(t, ns)
			o.Election = election
			writer := &interrupted{Writer: harness.Client(t), before: func() { referenceClaims(t, ns) }}
			o.Writer = writer
			h, p := startHolder(t, o)
			awaitLease(t, ns, "the claim", heldBy(h.Identity()))
			writer.now.Store(true)
			if err := p.stop(); err != nil {
				t.Errorf("ended with %v", err)
			}
			if l := lease(t, ns); !heldBy(reference)(l) || *l.Spec.LeaseDurationSeconds != 30 || writer.now.Load() {
				t.Errorf("the Lease is %s", describe(l))
			}
		})
	}
}

func TestAnAcknowledgementInTheLastMomentDoesNotKeepTheLease(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	writer := &interrupted{Writer: harness.Client(t), before: func() {
		l := lease(t, ns)
		l.Annotations[names.AnnotationReleasedTo] = *l.Spec.HolderIdentity
		if err := harness.Client(t).Update(t.Context(), l); err != nil {
			t.Error(err)
		}
	}}
	o.Writer = writer
	h, p := startHolder(t, o)
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	writer.now.Store(true)
	if err := p.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if l := lease(t, ns); l != nil {
		t.Errorf("the Lease is left: %s", describe(l))
	}
}

func TestAPassThatDoesNotEndKeepsTheLease(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, p := startHolder(t, holderOptions(t, ns))
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	p.longPass(t, ns)
	if err := p.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if l := lease(t, ns); l == nil || !heldBy(h.Identity())(l) || strings.Contains(describe(l), "released\":true") {
		t.Errorf("the Lease was let go: %s", describe(l))
	}
}

func TestALeaderHandsOverToItsSuccessor(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	o.Election = ns + "/leader"
	first, p := startHolder(t, o)
	awaitLease(t, ns, "the claim", heldBy(first.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	w, watching := startWatcher(t, silent(watcherOptions(t, ns)))
	watching.awaitWork(t, ns, false)
	if err := p.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	l := lease(t, ns)
	if l == nil || *l.Spec.LeaseDurationSeconds != 5 || !strings.Contains(describe(l), `"settled":true,"released":true`) {
		t.Fatalf("the Lease is %s", describe(l))
	}
	watching.clock.Step(2 * time.Second)
	second, q := startHolder(t, o)
	q.awaitWork(t, ns, true) // nobody moves its clock: it does not settle
	awaitLease(t, ns, "the claim", heldBy(second.Identity()))
	if !w.Excluded(ns) {
		t.Error("the cluster-wide operator came back in between")
	}
	if second.Identity() == first.Identity() {
		t.Error("two instances have one identity")
	}
}

func TestWithoutASuccessorTheClusterWideOperatorComesBackSoon(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	o.Election = ns + "/leader"
	h, p := startHolder(t, o)
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	_, watching := startWatcher(t, watcherOptions(t, ns))
	watching.awaitWork(t, ns, false)
	if err := p.stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	harness.Eventually(t, soon, "the return of the cluster-wide operator", func() (bool, string) {
		watching.clock.Step(time.Second)
		return watching.works(t, ns), ""
	})
	if passed := watching.clock.Since(someday(2020).Now()); passed > 15*time.Second {
		t.Errorf("it took %s", passed)
	}
	watching.awaitBell(t, ns)
}

func TestALeaderThatWasKilledIsSucceededAtOnce(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	o.Election = ns + "/leader"
	dead := &broken{Writer: harness.Client(t)}
	killed := o
	killed.Writer = dead
	first, p := startHolder(t, killed)
	l := awaitLease(t, ns, "the claim", heldBy(first.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	p.awaitBell(t, ns)
	awaitLease(t, ns, "the renewal", func(now *coordinationv1.Lease) bool { return !now.Spec.RenewTime.Equal(l.Spec.RenewTime) })
	dead.down.Store(true)
	_ = p.stop()
	second, q := startHolder(t, o)
	q.awaitWork(t, ns, true)
	if taken := awaitLease(t, ns, "the claim", heldBy(second.Identity())); *taken.Spec.LeaseTransitions != 1 {
		t.Errorf("the Lease is %s", describe(taken))
	}
}

func TestOfTwoHoldersOneWaits(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	var holders []*scope.Holder
	var parties []*party
	for range 2 {
		o := holderOptions(t, ns)
		o.Pod = "pod-" + strconv.Itoa(len(holders))
		h, p := startHolder(t, o)
		holders, parties = append(holders, h), append(parties, p)
	}
	l := awaitLease(t, ns, "a claim", func(*coordinationv1.Lease) bool { return true })
	first := 0
	if heldBy(holders[1].Identity())(l) {
		first = 1
	}
	for range 15 { // half of the Lease
		for _, p := range parties {
			awaitTimers(t, p, 1)
			p.clock.Step(time.Second)
		}
		if parties[1-first].works(t, ns) {
			t.Fatal("both work")
		}
	}
	parties[first].awaitWork(t, ns, true)
	if err := parties[first].stop(); err != nil {
		t.Errorf("ended with %v", err)
	}
	awaitLease(t, ns, "the claim of the other", heldBy(holders[1-first].Identity()))
}

func TestAProcessThatWasRestartedInItsPodGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	o.Pod = "pod-uid"
	dead := &broken{Writer: harness.Client(t)}
	killed := o
	killed.Writer = dead
	first, p := startHolder(t, killed)
	awaitLease(t, ns, "the claim", heldBy(first.Identity()))
	awaitTimers(t, p, 1)
	p.clock.Step(renew)
	awaitLease(t, ns, "the renewal", func(l *coordinationv1.Lease) bool { return strings.Contains(describe(l), `"settled":true`) })
	dead.down.Store(true)
	_ = p.stop()
	_, q := startHolder(t, o)
	q.awaitWork(t, ns, true)
}

func TestAHolderWithoutRightsSaysSo(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := holderOptions(t, ns)
	nobody, err := client.New(harness.RESTConfig(t, "nobody"), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	o.Reader = nobody
	h, err := scope.NewHolder(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "hold namespace "+ns+": look Lease") {
		t.Errorf("ended with %v", err)
	}
}
