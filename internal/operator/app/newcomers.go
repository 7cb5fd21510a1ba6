// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// afterOthers is the priority of what nobody has begun yet. Of a thousand graphs that are made at once, the first are then ready
	// when they can be, instead of all at the end; and only those in between have to be kept in mind. What was there when the
	// operator started has a lower one still, because most of it is as it should be.
	afterOthers = -1
	// foundAndBegun is that of what was there when the operator started, and comes back.
	foundAndBegun = afterOthers - 1
)

// newcomers are all primaries when they are seen for the first time. One watch tells of those from before the start and of those
// that are made later: of two, each could take what comes while they begin for the other's.
func newcomers(p parts, k kind) source.Source {
	return source.Kind(p.mgr.GetCache(), k.primary, behindOthers(), predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
}

// behindOthers queues what is seen for the first time behind everything that was begun.
func behindOthers() handler.EventHandler {
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
		priority := afterOthers
		if e.IsInInitialList {
			priority = handler.LowPriority
		}
		addAt(q, priority, request)
	}}
}

// addAt queues a request with a priority, where the queue knows any.
func addAt(q workqueue.TypedRateLimitingInterface[reconcile.Request], priority int, request reconcile.Request) {
	if queue, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: &priority}, request)
		return
	}
	q.Add(request)
}
