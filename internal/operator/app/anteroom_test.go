// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func numbered(kind string, i int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(kind, i)}}
}

// antechamber is the queues of graphs and of components, with room for as many newcomers each.
func antechamber(t *testing.T, most, mostNext int) (graphs, components *places, enter, enterNext func(i int)) {
	t.Helper()
	room := newAnteroom()
	above := flow{room: room, kind: "graph", next: "component", most: most, mostNext: mostNext}
	below := flow{room: room, kind: "component"}
	graphs, components = newPlaces(above, 100, newRetries(), logr.Discard()), newPlaces(below, 100, newRetries(), logr.Discard())
	return graphs, components,
		func(i int) { above.enter(graphs, numbered("graph", i)) }, func(i int) { below.enter(components, numbered("component", i)) }
}

func take(t *testing.T, q *places, want reconcile.Request) {
	t.Helper()
	got, shutdown := q.Get()
	if shutdown || got != want {
		t.Errorf("got %s, want %s", got.Name, want.Name)
	}
	q.Done(got)
}

func TestAGraphIsNotBegunWhileManyComponentsAreNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		graphs, components, enter, enterNext := antechamber(t, 2, 2)
		enterNext(0)
		enterNext(1)
		enter(0)
		enter(1)
		synctest.Wait()
		if n := graphs.Len(); n != 0 {
			t.Fatalf("%d graphs are queued though components wait", n)
		}
		edited := numbered("edited", 0)
		graphs.Add(edited) // somebody changed a graph that was begun long ago
		take(t, graphs, edited)
		take(t, components, numbered("component", 0))
		synctest.Wait()
		take(t, graphs, numbered("graph", 0))
		take(t, graphs, numbered("graph", 1))
		graphs.ShutDown()
		components.ShutDown()
	})
}

func TestGraphsAreBegunInTheOrderInWhichTheyCameAndNoneIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		graphs, components, enter, enterNext := antechamber(t, 2, 3)
		for i := range many {
			enter(i)
		}
		made, looked := 0, 0
		for i := range many {
			synctest.Wait()
			if n := graphs.Len(); n > 2 {
				t.Fatalf("%d graphs are queued, want 2 at most", n)
			}
			take(t, graphs, numbered("graph", i))
			for range 2 {
				enterNext(made)
				made++
			}
			for ; looked < made-2; looked++ { // the components of the last one are not looked at yet
				take(t, components, numbered("component", looked))
			}
		}
		graphs.ShutDown()
		components.ShutDown()
	})
}

func TestNobodyIsHeldByAQueueThatWasShutDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails where a goroutine is left
		graphs, components, enter, enterNext := antechamber(t, 1, 1)
		enterNext(0)
		enter(0)
		enter(1)
		synctest.Wait()
		components.ShutDown()
		graphs.ShutDown()
	})
}

func TestComponentsThatNobodyBeginsHoldNoGraphForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		graphs, components, enter, enterNext := antechamber(t, 2, 1)
		began := time.Now()
		enterNext(0) // all passes over components are held up
		enter(0)
		take(t, graphs, numbered("graph", 0))
		if waited := time.Since(began); waited != slowAfter {
			t.Errorf("a graph waited %s for components that do not get on, want %s", waited, slowAfter)
		}
		enterNext(1)
		take(t, components, numbered("component", 0)) // they do get on
		enter(1)
		<-time.After(slowAfter / 2) // of the time of this test alone
		synctest.Wait()
		if n := graphs.Len(); n != 0 {
			t.Errorf("%d graphs are queued though a component was begun a moment ago", n)
		}
		graphs.ShutDown()
		components.ShutDown()
	})
}
