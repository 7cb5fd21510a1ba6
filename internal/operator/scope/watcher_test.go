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
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/scope"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// silent makes a watcher one that acknowledges nothing: a standby.
func silent(o scope.WatcherOptions) scope.WatcherOptions {
	o.Elected = make(chan struct{})
	return o
}

func TestWorkBeginsWhenTheClusterWideOperatorHasLetGo(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	w, watching := startWatcher(t, watcherOptions(t, ns))
	pass := watching.longPass(t, ns)
	h, holding := startHolder(t, holderOptions(t, ns))
	pass.awaitEnd(t)
	if !w.Excluded(ns) || w.Leases()[ns] != scope.StateExcluded || watching.works(t, ns) {
		t.Error("the cluster-wide operator goes on")
	}
	unanswered := func() bool {
		awaitTimers(t, watching, 2) // it had a turn
		return lease(t, ns).Annotations[names.AnnotationReleasedTo] == ""
	}
	if !unanswered() || holding.works(t, ns) {
		t.Fatal("the restricted operator begins while a pass of the other is under way")
	}
	if err := pass.leave(); err != nil {
		t.Errorf("the pass that was ended reports %v", err)
	}
	watching.clock.Step(900 * time.Millisecond)
	if !unanswered() || holding.works(t, ns) {
		t.Fatal("the restricted operator begins while something of the other may be under way")
	}
	watching.clock.Step(100 * time.Millisecond)
	holding.awaitBell(t, ns)
	if !holding.works(t, ns) {
		t.Error("work has not begun")
	}
	l := lease(t, ns)
	if l.Annotations[names.AnnotationReleasedTo] != h.Identity() {
		t.Errorf("the Lease is %s", describe(l))
	}
}

func TestAStandbyAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := watcherOptions(t, ns)
	leadership := make(chan struct{})
	o.Elected = leadership
	w, watching := startWatcher(t, o)
	h, holding := startHolder(t, holderOptions(t, ns))
	harness.Eventually(t, soon, "the standby knowing the Lease", func() (bool, string) { return w.Excluded(ns), "" })
	awaitTimers(t, watching, 1)
	watching.clock.Step(2 * time.Second)
	awaitTimers(t, watching, 1) // it had a turn
	if l := awaitLease(t, ns, "the claim", heldBy(h.Identity())); l.Annotations[names.AnnotationReleasedTo] != "" || holding.works(t, ns) {
		t.Fatalf("the Lease is %s", describe(l))
	}
	close(leadership)
	holding.awaitWork(t, ns, true)
}

func TestALeaseOfTheReferenceCountsFromItsFirstMoment(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	w, watching := startWatcher(t, watcherOptions(t, ns))
	watching.awaitWork(t, ns, true)
	referenceClaims(t, ns)
	harness.Eventually(t, soon, "the namespace being left", func() (bool, string) { return w.Excluded(ns), "" })
	if l := lease(t, ns); l.Spec.RenewTime != nil || l.Annotations[names.AnnotationReleasedTo] != "" {
		t.Errorf("the Lease is %s", describe(l))
	}
	watching.clock.Step(duration - time.Second)
	awaitTimers(t, watching, 1)
	if watching.works(t, ns) {
		t.Error("the cluster-wide operator came back too early")
	}
	watching.clock.Step(time.Second) // nothing happens but that time passes
	watching.awaitBell(t, ns)
	if !watching.works(t, ns) || len(w.Leases()) > 0 {
		t.Error("the cluster-wide operator did not come back")
	}
	referenceClaims(t, ns)
	harness.Eventually(t, soon, "the namespace being left again", func() (bool, string) { return w.Excluded(ns), "" })
	remove(t, ns)
	harness.Eventually(t, soon, "the return after the deletion", func() (bool, string) {
		watching.clock.Step(100 * time.Millisecond)
		return watching.works(t, ns), ""
	})
	watching.awaitBell(t, ns)
}

func TestAWatcherThatStartsLaterKnowsWhatIsClaimed(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, holding := startHolder(t, holderOptions(t, ns))
	awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	w := scope.NewWatcher(watcherOptions(t, ns))
	late := &party{Keeper: w}
	if late.works(t, ns) { // before it has been started: the first pass asks
		t.Error("a pass was let in")
	}
	if holding.works(t, ns) {
		t.Error("the holder works before it was answered")
	}
	_, watching := startWatcher(t, watcherOptions(t, ns))
	holding.awaitWork(t, ns, true)
	if watching.works(t, ns) {
		t.Error("both work")
	}
}

// deaf is a watch that brings nothing.
type deaf struct{ cache.Informers }

func (deaf) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return deafInformer{}, nil
}

type deafInformer struct{ cache.Informer }

func (deafInformer) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func (deafInformer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

func TestAWatchThatRunsBehindDoesNotLetBothWork(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := watcherOptions(t, ns)
	o.Informers = deaf{}
	w, watching := startWatcher(t, o)
	watching.awaitWork(t, ns, true)
	pass := watching.longPass(t, ns)
	referenceClaims(t, ns)
	harness.Eventually(t, soon, "the end of the pass", func() (bool, string) {
		watching.clock.Step(100 * time.Millisecond)
		return pass.ctx.Err() != nil, ""
	})
	if passed := watching.clock.Since(someday(2020).Now()); passed > 6*time.Second {
		t.Errorf("a pass ran for %s after a Lease was made, longer than a holder waits for one that does not answer", passed)
	}
	_ = pass.leave()
	if watching.works(t, ns) || !w.Excluded(ns) {
		t.Error("the cluster-wide operator goes on")
	}

	// What looks like the end of the Lease is the end of the watch.
	watching.clock.Step(duration - time.Second)
	referenceClaims(t, ns)
	for range 5 {
		awaitTimers(t, watching, 1)
		watching.clock.Step(time.Second)
		awaitTimers(t, watching, 1)
		if !w.Excluded(ns) || watching.queue.Len() > 0 {
			t.Fatal("the cluster-wide operator came back although the Lease was renewed")
		}
	}
	remove(t, ns)
	harness.Eventually(t, soon, "the return after the deletion", func() (bool, string) {
		watching.clock.Step(time.Second)
		return watching.works(t, ns), ""
	})
}

// mute is a reader whose lists fail.
type mute struct {
	client.Reader

	down atomic.Bool
}

func (m *mute) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if m.down.Load() {
		return errors.New("no connection")
	}
	return m.Reader.List(ctx, list, opts...)
}

func TestAWatcherThatCannotAskLetsNoPassIn(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	o := watcherOptions(t, ns)
	reader := &mute{Reader: o.Reader}
	o.Reader = reader
	_, watching := startWatcher(t, o)
	watching.awaitWork(t, ns, true)
	pass := watching.longPass(t, ns)
	reader.down.Store(true)
	watching.clock.Step(4 * time.Second)
	if pass.ctx.Err() != nil {
		t.Error("a pass was ended too early")
	}
	watching.clock.Step(time.Second)
	pass.awaitEnd(t)
	if err := pass.leave(); !errors.Is(err, context.Canceled) {
		t.Errorf("a pass that has to be repeated reports %v", err)
	}
	if watching.works(t, ns) {
		t.Error("a pass was let in")
	}
	reader.down.Store(false)
	watching.awaitWork(t, ns, true)
}

func TestALongPassGoesOnWhileNobodyClaimsItsNamespace(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	_, watching := startWatcher(t, watcherOptions(t, ns))
	pass := watching.longPass(t, ns)
	for range 20 {
		awaitTimers(t, watching, 1)
		watching.clock.Step(time.Second)
		harness.Eventually(t, soon, "the next confirmation", func() (bool, string) { return watching.clock.Waiters() >= 2, "" })
	}
	if pass.ctx.Err() != nil {
		t.Errorf("ended by %v", context.Cause(pass.ctx))
	}
}

func TestAnAcknowledgementChangesNothingOfTheLease(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	h, _ := startHolder(t, holderOptions(t, ns))
	before := awaitLease(t, ns, "the claim", heldBy(h.Identity()))
	startWatcher(t, watcherOptions(t, ns))
	after := awaitLease(t, ns, "the acknowledgement", func(l *coordinationv1.Lease) bool {
		return l.Annotations[names.AnnotationReleasedTo] == h.Identity()
	})
	if !before.Spec.RenewTime.Equal(after.Spec.RenewTime) || before.Annotations[names.AnnotationScope] != after.Annotations[names.AnnotationScope] {
		t.Errorf("the Lease was %s and is %s", describe(before), describe(after))
	}
}

// shippedRights gives a new user rights in a namespace, or in all, and returns a client of that user.
func shippedRights(t *testing.T, user string, role, binding client.Object) (*rest.Config, client.Client) {
	t.Helper()
	for _, obj := range []client.Object{role, binding} {
		if err := harness.Client(t).Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	config := harness.RESTConfig(t, user)
	api, err := client.New(config, client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return config, api
}

func TestTheShippedRolesAllowThisLeaseAndNoOther(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	wide, err := rbac.ManagerRole()
	if err != nil {
		t.Fatal(err)
	}
	one, err := rbac.RestrictedRole()
	if err != nil {
		t.Fatal(err)
	}
	watches, holds := ns+"-wide", ns+"-one"
	wide.Name, one.Name, one.Namespace = watches, holds, ns
	config, api := shippedRights(t, watches, wide, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: watches}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: watches},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: watches}},
	})
	_, holder := shippedRights(t, holds, one, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: holds, Namespace: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: holds},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: holds}},
	})
	w, watching := startWatcher(t, silent(scope.WatcherOptions{
		Informers: clusterLeases(t, config), Reader: api, Writer: api, Clock: someday(2020), Log: testr.New(t),
	}))
	watching.awaitWork(t, ns, true)
	o := holderOptions(t, ns)
	o.Reader, o.Writer = holder, holder
	h, holding := startHolder(t, o)
	harness.Eventually(t, soon, "the namespace being left", func() (bool, string) { return w.Excluded(ns), "" })
	acknowledge := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"nvidia.com/released-to":"`+h.Identity()+`"}}}`))
	if err := api.Patch(t.Context(), lease(t, ns), acknowledge); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	holding.awaitWork(t, ns, true)
	if err := api.Delete(t.Context(), lease(t, ns)); !apierrors.IsForbidden(err) {
		t.Errorf("an operator of all namespaces takes a namespace away: %v, want forbidden", err)
	}
	if err := holder.Patch(t.Context(), lease(t, ns), acknowledge); !apierrors.IsForbidden(err) {
		t.Errorf("an operator of one namespace acknowledges its own claim: %v, want forbidden", err)
	}
	if err := holding.stop(); err != nil || lease(t, ns) != nil {
		t.Errorf("let go: %v", err)
	}
	for name, api := range map[string]client.Client{"everywhere": api, "in one namespace": holder} {
		if err := api.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(ns)); !apierrors.IsForbidden(err) {
			t.Errorf("%s: list all Leases: %v, want forbidden", name, err)
		}
		another := client.MatchingFields{"metadata.name": "another"}
		if err := api.List(t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(ns), another); !apierrors.IsForbidden(err) {
			t.Errorf("%s: list another Lease: %v, want forbidden", name, err)
		}
	}
}
