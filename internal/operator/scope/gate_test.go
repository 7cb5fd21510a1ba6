// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// patience of a test for what happens at once.
const atOnce = 10 * time.Second

func awaitEnd(t *testing.T, p *pass) error {
	t.Helper()
	select {
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	case <-time.After(atOnce):
		t.Fatal("the pass was not ended")
		return nil
	}
}

func TestAGateThatNobodyLooksAfterShuts(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(epoch)
	g := newGate(c)
	if g.enter(t.Context(), "a") != nil {
		t.Fatal("a new gate lets passes in")
	}
	g.extend(after(10 * time.Second))
	p := g.enter(t.Context(), "a")
	c.Step(5 * time.Second)
	g.extend(after(15 * time.Second))
	c.Step(9 * time.Second)
	if p.ctx.Err() != nil {
		t.Fatal("a pass was ended although its time was extended")
	}
	c.Step(time.Second)
	if cause := awaitEnd(t, p); !errors.Is(cause, errLapsed) {
		t.Errorf("ended by %v", cause)
	}
	if g.enter(t.Context(), "a") != nil {
		t.Error("a gate whose time is over lets passes in")
	}
	p.leave()
}

func TestANamespaceIsQuietAfterItsLastPassAndWhatThatSent(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(epoch)
	g := newGate(c)
	g.extend(after(time.Hour))
	one, two, elsewhere := g.enter(t.Context(), "a"), g.enter(t.Context(), "a"), g.enter(t.Context(), "b")
	if !g.take("a") || g.take("a") {
		t.Error("that a namespace is taken is new once")
	}
	if cause := awaitEnd(t, one); !errors.Is(cause, errNotOurs) {
		t.Errorf("ended by %v", cause)
	}
	if elsewhere.ctx.Err() != nil || g.enter(t.Context(), "b") == nil {
		t.Error("another namespace is disturbed")
	}
	if g.enter(t.Context(), "a") != nil {
		t.Error("a namespace that is taken lets passes in")
	}
	one.leave()
	if _, empty := g.quiet("a"); empty {
		t.Error("quiet with a pass inside")
	}
	c.Step(3 * time.Second)
	two.leave()
	at, empty := g.quiet("a")
	if want := after(3*time.Second + straggle); !empty || !at.Equal(want) {
		t.Errorf("quiet from %s on (%v), want %s", at, empty, want)
	}
	select {
	case <-g.left:
	default:
		t.Error("nobody was told that the last pass left")
	}
	if !g.give("a") || g.give("a") || g.enter(t.Context(), "a") == nil {
		t.Error("a namespace that is given back is not open")
	}
}

func TestANamespaceWithoutPassesIsQuietAtOnce(t *testing.T) {
	t.Parallel()
	g := newGate(clocktesting.NewFakeClock(epoch))
	g.extend(after(time.Hour))
	g.enter(t.Context(), "a").leave() // one that ended by itself
	g.take("a")
	if at, empty := g.quiet("a"); !empty || at.After(epoch) {
		t.Errorf("quiet from %s on (%v)", at, empty)
	}
}

func TestAPassThatItsManagerEndedMayStillHaveSentSomething(t *testing.T) {
	t.Parallel()
	g := newGate(clocktesting.NewFakeClock(epoch))
	g.extend(after(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	p := g.enter(ctx, "a")
	cancel()
	p.leave()
	g.close()
	if at, _ := g.quiet("a"); !at.Equal(after(straggle)) {
		t.Errorf("quiet from %s on, want a moment later", at)
	}
}

// roundTrips counts the requests that are sent.
type roundTrips int

func (n *roundTrips) RoundTrip(*http.Request) (*http.Response, error) {
	*n++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestAProcessThatWasFrozenSendsNothingOfItsPasses(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakePassiveClock(epoch) // its timers never fire
	g := newGate(passive{c})
	g.extend(after(10 * time.Second))
	p := g.enter(t.Context(), "a")
	defer p.leave()
	var sent roundTrips
	send := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, "https://server/apis", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Transport(&sent).RoundTrip(req)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	if err := send(p.ctx); err != nil || sent != 1 {
		t.Errorf("in time: %v", err)
	}
	c.SetTime(after(time.Minute))
	if err := send(p.ctx); !errors.Is(err, errLapsed) || sent != 1 || p.ctx.Err() != nil {
		t.Errorf("too late: %v, %d sent", err, sent)
	}
	if err := send(t.Context()); err != nil || sent != 2 {
		t.Errorf("a request of no pass: %v", err)
	}
}

// passive is a clock whose timers never fire.
type passive struct{ *clocktesting.FakePassiveClock }

func (passive) After(time.Duration) <-chan time.Time        { return nil }
func (passive) NewTimer(time.Duration) clock.Timer          { return silence{} }
func (passive) AfterFunc(time.Duration, func()) clock.Timer { return silence{} }
func (passive) Sleep(time.Duration)                         {}
func (passive) Tick(time.Duration) <-chan time.Time         { return nil }

type silence struct{}

func (silence) C() <-chan time.Time      { return nil }
func (silence) Stop() bool               { return true }
func (silence) Reset(time.Duration) bool { return true }

func TestAGuardDropsWhatIsNotOursAndRepeatsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	c := clocktesting.NewFakeClock(epoch)
	g := newGate(c)
	failure := errors.New("cannot tell")
	var enterFails error
	var during func()
	guarded := guard(func(ctx context.Context, namespace string) (*pass, error) {
		return g.enter(ctx, namespace), enterFails
	}, reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		during()
		return reconcile.Result{RequeueAfter: time.Minute}, ctx.Err()
	}))
	req := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "a", Name: "g"}}
	reconciled := func(do func()) (reconcile.Result, error) {
		during = do
		return guarded.Reconcile(t.Context(), req)
	}
	never := func() { t.Error("a pass ran where none may") }
	again := reconcile.Result{RequeueAfter: time.Minute}

	if got, err := reconciled(never); got != (reconcile.Result{}) || err != nil {
		t.Errorf("shut: %v, %v", got, err)
	}
	g.extend(after(time.Hour))
	if got, err := reconciled(func() {}); got != again || err != nil {
		t.Errorf("open: %v, %v", got, err)
	}
	if got, err := reconciled(func() { g.take("a") }); got != (reconcile.Result{}) || err != nil {
		t.Errorf("taken during a pass: %v, %v", got, err)
	}
	if got, err := reconciled(never); got != (reconcile.Result{}) || err != nil {
		t.Errorf("taken: %v, %v", got, err)
	}
	g.give("a")
	if _, err := reconciled(func() { c.Step(2 * time.Hour); g.lapse() }); !errors.Is(err, context.Canceled) {
		t.Errorf("lapsed during a pass: %v", err)
	}
	enterFails = failure
	if _, err := reconciled(never); !errors.Is(err, failure) {
		t.Errorf("unknown: %v", err)
	}
	if _, busy := g.remaining(); busy {
		t.Error("a pass was left in the gate")
	}
}

func TestTheBellWakesEveryControllerWithAllOfTheNamespace(t *testing.T) {
	t.Parallel()
	var b bell
	queues := map[string]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
	for _, kind := range []string{"graphs", "components"} {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		t.Cleanup(queue.ShutDown)
		source := b.Source(func(_ context.Context, namespace string) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: kind}}}
		})
		if err := source.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		queues[kind] = queue
	}
	b.ring("a")
	for kind, queue := range queues {
		if got, _ := queue.Get(); got.String() != "a/"+kind {
			t.Errorf("%s got %s", kind, got)
		}
	}
}
