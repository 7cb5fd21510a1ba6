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

// afterOthers is the priority of what nobody has begun yet. Of a thousand graphs that are made at once, the first are then ready
// when they can be, instead of all at the end; and only those in between have to be kept in mind. What was there when the
// operator started has a lower one still.
const afterOthers = -1

// newcomers are primaries that are made while the operator runs.
func newcomers(p parts, k kind) source.Source {
	return source.Kind(p.mgr.GetCache(), k.primary, behindOthers(), predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
}

// behindOthers queues what is made behind everything that was begun.
func behindOthers() handler.EventHandler {
	return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
		if queue, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(afterOthers)}, request)
			return
		}
		q.Add(request)
	}}
}
