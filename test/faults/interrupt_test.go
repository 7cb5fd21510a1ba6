// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// tries is how often a crash point is sought. Two runs of a story may need one status write more or less, so that the
// last point is not always there; a point that never is would mean that nothing was tested.
const tries = 5

func TestAnOperatorThatDiesAfterAnyWriteIsContinuedByTheNext(t *testing.T) {
	t.Parallel()
	world, err := NewWorld(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undisturbed := NewWrites(0)
			want := play(t, world, s, undisturbed)
			points := len(undisturbed.List())
			if points == 0 {
				t.Fatal("the operator wrote nothing, so there is nothing to interrupt")
			}
			t.Logf("%d crash points:\n%s", points, strings.Join(undisturbed.List(), "\n"))
			for point := 1; point <= points; point++ {
				t.Run(fmt.Sprintf("after write %d", point), func(t *testing.T) {
					t.Parallel()
					interrupt(t, world, s, point, want)
				})
			}
		})
	}
}

// interrupt plays a story with a crash and compares how it ends.
func interrupt(t *testing.T, world *World, s scenario, point int, want Snapshot) {
	t.Helper()
	for range tries {
		writes := NewWrites(point)
		got := play(t, world, s, writes)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("world after the crash (-undisturbed +interrupted):\n%s\nwrites before the crash:\n%s",
				diff, strings.Join(writes.List(), "\n"))
		}
		if writes.HasCrashed() {
			return
		}
	}
	t.Fatalf("no run in %d reached write %d, so no crash was injected", tries, point)
}

// play tells a story once: with an operator that dies where writes says so, and a fresh one after it.
func play(t *testing.T, world *World, s scenario, writes *Writes) Snapshot {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	etcd := startEtcd(t, s, ns)
	if s.before != nil {
		before := harness.StartOperator(t, ns, etcd.flags())
		s.before(t, ns)
		AtRest(t, world, ns)
		before.Stop()
	}
	victim := harness.StartOperator(t, ns, harness.WithTransport(writes.Wrap), etcd.flags())
	s.during(t, ns)
	if crashes(writes, func() bool { return quiet(t, world, ns) }) {
		victim.Kill()
		harness.StartOperator(t, ns, etcd.flags())
	}
	s.ended(t, ns)
	return etcd.addTo(AtRest(t, world, ns))
}

// crashes waits for the crash or for the end of the story. A crash makes the world just as quiet as an end does, so it
// is asked for last.
func crashes(writes *Writes, ended func() bool) bool {
	if writes.crashAfter == 0 {
		return false
	}
	for !writes.HasCrashed() {
		if ended() {
			break
		}
	}
	return writes.HasCrashed()
}

// quiet tells whether nothing moves for as long as it takes to be sure.
func quiet(t *testing.T, world *World, ns string) bool {
	t.Helper()
	_, before, err := world.Read(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); time.Since(start) < stillFor; {
		_, after, err := world.Read(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(before, after) {
			return false
		}
	}
	return true
}

func refused(t *testing.T, ns string) {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	harness.Eventually(t, 30*time.Second, "the graph is refused", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(g.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == conditions.ValidationFailed, fmt.Sprint(c)
	})
}

func gone(t *testing.T, ns, name string, object client.Object) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, name+" is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}
