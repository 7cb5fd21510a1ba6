// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=dynamo-operator-namespace-scope,verbs=list;watch

// follow reports every change of a Lease that matters, until stop is called.
func follow(ctx context.Context, informers cache.Informers, report func(lease *coordinationv1.Lease, gone bool)) (stop func(), err error) {
	informer, err := informers.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return nil, fmt.Errorf("watch Leases %s: %w", names.ScopeLease, err)
	}
	on := func(obj any, gone bool) {
		if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if lease, ok := obj.(*coordinationv1.Lease); ok && lease.Name == names.ScopeLease {
			report(lease, gone)
		}
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { on(obj, false) },
		UpdateFunc: func(_, obj any) { on(obj, false) },
		DeleteFunc: func(obj any) { on(obj, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch Leases %s: %w", names.ScopeLease, err)
	}
	return func() { _ = informer.RemoveEventHandler(handle) }, nil
}
