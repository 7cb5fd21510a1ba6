// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	// soon is how long a test waits for what happens at once on an idle machine.
	soon = 20 * time.Second

	duration = 30 * time.Second
	renew    = 10 * time.Second
)

// someday is when the clocks of a test begin. The two sides never have the same time.
func someday(year int) *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
}

// party is a Holder or a Watcher that runs until it is stopped, at the latest with the test.
type party struct {
	scope.Keeper

	clock *clocktesting.FakeClock
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// stop ends the party, await waits until it has ended by itself.
	stop  func() error
	await func() error
}

// run starts a party. The error it ends with is for the test to judge.
func run(t *testing.T, keeper scope.Keeper, c *clocktesting.FakeClock, start func(context.Context) error) *party {
	t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	everything := func(_ context.Context, namespace string) []reconcile.Request {
		return []reconcile.Request{request(namespace)}
	}
	if err := keeper.Source(everything).Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	p := &party{Keeper: keeper, clock: c, queue: queue}
	p.await = func() error {
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(soon):
			return errors.New("did not end in time")
		}
	}
	p.stop = func() error {
		cancel()
		return p.await()
	}
	t.Cleanup(func() {
		queue.ShutDown()
		cancel()
		harness.Eventually(t, soon, "the end of a party", func() (bool, string) {
			c.Step(time.Second) // it may wait for what a pass had sent
			return len(ended) > 0, ""
		})
	})
	return p
}

func request(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "graph"}}
}

// leases are the Leases of one namespace, as an operator that is restricted to it sees them.
func leases(t *testing.T, namespace string) cache.Cache {
	t.Helper()
	return startCache(t, harness.RESTConfig(t, localcluster.UserAdmin), cache.Options{
		DefaultNamespaces: map[string]cache.Config{namespace: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
}

// clusterLeases are the Leases of all namespaces, as a user sees them.
func clusterLeases(t *testing.T, config *rest.Config) cache.Cache {
	t.Helper()
	return startCache(t, config, cache.Options{})
}

func startCache(t *testing.T, config *rest.Config, o cache.Options) cache.Cache {
	t.Helper()
	o.Scheme = harness.Scheme(t)
	o.ByObject = map[client.Object]cache.ByObject{&coordinationv1.Lease{}: scope.Selected()}
	c, err := cache.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return c
}

func holderOptions(t *testing.T, namespace string) scope.HolderOptions {
	t.Helper()
	return scope.HolderOptions{
		Namespace: namespace, Version: "1.2.3", Timing: scope.Timing{Duration: duration, Renew: renew},
		Informers: leases(t, namespace), Reader: harness.Client(t), Writer: harness.Client(t),
		Clock: someday(2040), Log: testr.New(t),
	}
}

func startHolder(t *testing.T, o scope.HolderOptions) (*scope.Holder, *party) {
	t.Helper()
	h, err := scope.NewHolder(o)
	if err != nil {
		t.Fatal(err)
	}
	return h, run(t, h, o.Clock.(*clocktesting.FakeClock), h.Start)
}

// elected is the leadership of one who has it.
func elected() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// watcherOptions are those of a leader that sees one namespace alone, so that tests do not meet.
func watcherOptions(t *testing.T, namespace string) scope.WatcherOptions {
	t.Helper()
	return scope.WatcherOptions{
		Elected: elected(), Informers: leases(t, namespace), Reader: client.NewNamespacedClient(harness.Client(t), namespace),
		Writer: harness.Client(t), Clock: someday(2020), Log: testr.New(t),
	}
}

func startWatcher(t *testing.T, o scope.WatcherOptions) (*scope.Watcher, *party) {
	t.Helper()
	w := scope.NewWatcher(o)
	return w, run(t, w, o.Clock.(*clocktesting.FakeClock), w.Start)
}

// works tells whether a pass is let in now.
func (p *party) works(t *testing.T, namespace string) bool {
	t.Helper()
	ran := false
	_, err := p.Guard(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		ran = true
		return reconcile.Result{}, nil
	})).Reconcile(t.Context(), request(namespace))
	return ran && err == nil
}

func (p *party) awaitWork(t *testing.T, namespace string, want bool) {
	t.Helper()
	harness.Eventually(t, soon, "the right to work becoming what it should be", func() (bool, string) {
		return p.works(t, namespace) == want, ""
	})
}

// awaitBell waits until the controllers were woken, once.
func (p *party) awaitBell(t *testing.T, namespace string) {
	t.Helper()
	harness.Eventually(t, soon, "everything of the namespace queued", func() (bool, string) { return p.queue.Len() == 1, "" })
	got, _ := p.queue.Get()
	p.queue.Done(got)
	if got != request(namespace) {
		t.Errorf("queued %s", got)
	}
}

// long is a pass that stays until it is told to leave, whatever becomes of its context.
type long struct {
	ctx   context.Context
	leave func() error
}

func (p *party) longPass(t *testing.T, namespace string) long {
	t.Helper()
	in, out, done := make(chan context.Context, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := p.Guard(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			in <- ctx
			<-out
			return reconcile.Result{}, ctx.Err()
		})).Reconcile(context.WithoutCancel(t.Context()), request(namespace))
		done <- err
	}()
	var left atomic.Bool
	leave := func() error {
		if left.Swap(true) {
			return nil
		}
		close(out)
		return <-done
	}
	t.Cleanup(func() { _ = leave() })
	select {
	case ctx := <-in:
		return long{ctx: ctx, leave: leave}
	case err := <-done:
		t.Fatalf("a pass was not let in: %v", err)
	}
	return long{}
}

func (l long) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-l.ctx.Done():
	case <-time.After(soon):
		t.Fatal("the pass was not ended")
	}
}

// lease is the one of the namespace, nil if there is none.
func lease(t *testing.T, namespace string) *coordinationv1.Lease {
	t.Helper()
	l := &coordinationv1.Lease{}
	err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: names.ScopeLease}, l)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func awaitLease(t *testing.T, namespace, what string, ok func(*coordinationv1.Lease) bool) *coordinationv1.Lease {
	t.Helper()
	var l *coordinationv1.Lease
	harness.Eventually(t, soon, what, func() (bool, string) {
		l = lease(t, namespace)
		return l != nil && ok(l), "the Lease is " + describe(l)
	})
	return l
}

func describe(l *coordinationv1.Lease) string {
	if l == nil {
		return "not there"
	}
	return l.Spec.String() + " " + l.Annotations[names.AnnotationScope] + " released to " + l.Annotations[names.AnnotationReleasedTo]
}

func heldBy(identity string) func(*coordinationv1.Lease) bool {
	return func(l *coordinationv1.Lease) bool {
		return l != nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == identity
	}
}

const reference = "namespace-restricted-operator-0.9.0"

// referenceClaims writes the Lease as the reference does: at first without a renewal time, afterwards over whoever has it.
func referenceClaims(t *testing.T, namespace string) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		l, now := lease(t, namespace), metav1.NowMicro()
		if l == nil {
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, Namespace: namespace}}
			l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(reference), LeaseDurationSeconds: new(int32(30)), AcquireTime: &now}
			return harness.Client(t).Create(t.Context(), l)
		}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = new(reference), new(int32(30)), &now
		return harness.Client(t).Update(t.Context(), l)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, namespace string) {
	t.Helper()
	if err := harness.Client(t).Delete(t.Context(), lease(t, namespace)); err != nil {
		t.Fatal(err)
	}
}
