// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/component"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers/graph"
)

// graphs returns a mapping from an object to some of the graphs of its namespace, or of all for one without a namespace.
func graphs(p parts, choose func([]v1alpha1.DynamoGraphDeployment, client.Object) []reconcile.Request, inNamespace bool) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		var found v1alpha1.DynamoGraphDeploymentList
		opts := []client.ListOption{client.UnsafeDisableDeepCopy}
		if inNamespace {
			opts = append(opts, client.InNamespace(obj.GetNamespace()))
		}
		if err := p.mgr.GetCache().List(ctx, &found, opts...); err != nil {
			p.mgr.GetLogger().Error(err, "Graphs were not listed", "because of", obj.GetName())
			return nil
		}
		return choose(found.Items, obj)
	}
}

func components(p parts, choose func([]v1alpha1.DynamoComponentDeployment) []reconcile.Request, inNamespace bool) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		var found v1alpha1.DynamoComponentDeploymentList
		opts := []client.ListOption{client.UnsafeDisableDeepCopy}
		if inNamespace {
			opts = append(opts, client.InNamespace(obj.GetNamespace()))
		}
		if err := p.mgr.GetCache().List(ctx, &found, opts...); err != nil {
			p.mgr.GetLogger().Error(err, "Components were not listed", "because of", obj.GetName())
			return nil
		}
		return choose(found.Items)
	}
}

func graphsOfClaim(p parts) handler.MapFunc {
	return graphs(p, func(all []v1alpha1.DynamoGraphDeployment, claim client.Object) []reconcile.Request {
		return graph.WaitingFor(all, claim.GetName())
	}, true)
}

// graphsOfKey wakes graphs that have a copy when the original of the key pair of mpirun changed.
func graphsOfKey(p parts) handler.MapFunc {
	wake := graphs(p, func(all []v1alpha1.DynamoGraphDeployment, _ client.Object) []reconcile.Request {
		return graph.OfSeveralNodes(all)
	}, false)
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if client.ObjectKeyFromObject(obj) != p.keys.Secret {
			return nil
		}
		return wake(ctx, obj)
	}
}

func graphsOfSecret(p parts) handler.MapFunc {
	return graphs(p, func(all []v1alpha1.DynamoGraphDeployment, _ client.Object) []reconcile.Request {
		return graph.WaitingForSecrets(all)
	}, true)
}

func graphsOfQueue(p parts) handler.MapFunc {
	return graphs(p, func(all []v1alpha1.DynamoGraphDeployment, queue client.Object) []reconcile.Request {
		return graph.WaitingForQueue(all, queue.GetName())
	}, false)
}

func graphOfPod(parts) handler.MapFunc {
	return func(_ context.Context, pod client.Object) []reconcile.Request { return graph.OfPod(pod) }
}

func componentsOfKey(p parts) handler.MapFunc {
	wake := components(p, component.OfSeveralNodes, false)
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		if client.ObjectKeyFromObject(obj) != p.keys.Secret {
			return nil
		}
		return wake(ctx, obj)
	}
}

func componentsOfSecret(p parts) handler.MapFunc {
	return components(p, component.WaitingForSecrets, true)
}

func componentOfPod(parts) handler.MapFunc {
	return func(_ context.Context, pod client.Object) []reconcile.Request { return component.OfPod(pod) }
}
