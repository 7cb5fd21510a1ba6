// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

func TestWhatWasBegunIsFinishedBeforeSomethingNewIsBegun(t *testing.T) {
	t.Parallel()
	q := priorityqueue.New[reconcile.Request]("graphs")
	defer q.ShutDown()
	named := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
	}
	graph := func(name string) client.Object { return builders.TwoComponents("ns", name).Obj() }
	direct := behindOthers()
	direct.Create(t.Context(), event.CreateEvent{Object: graph("from-before-the-start"), IsInInitialList: true}, q)
	direct.Create(t.Context(), event.CreateEvent{Object: graph("first")}, q)
	direct.Create(t.Context(), event.CreateEvent{Object: graph("second")}, q)
	q.Add(named("begun"))
	for _, want := range []string{"begun", "first", "second", "from-before-the-start"} {
		got, _ := q.Get()
		if got != named(want) {
			t.Errorf("got %s, want %s", got.Name, want)
		}
		q.Done(got)
	}
}

func TestOneWatchAloneTellsOfWhatIsSeenForTheFirstTime(t *testing.T) {
	t.Parallel()
	for _, initial := range []bool{false, true} {
		if changed().Create(event.CreateEvent{Object: builders.TwoComponents("ns", "g").Obj(), IsInInitialList: initial}) {
			t.Errorf("two watches tell of it, initial %t: each could leave it to the other", initial)
		}
	}
}
