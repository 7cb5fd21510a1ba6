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
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
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

// graphsOfHost wakes the graphs that share a host with one that changed. A change is mapped as it was and as it is, so
// one that gave its host up is found by it.
func graphsOfHost(p parts) handler.MapFunc {
	hosts := p.hosts()
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		g, ok := obj.(*v1alpha1.DynamoGraphDeployment)
		if !ok {
			return nil
		}
		var all []reconcile.Request
		for _, host := range hosts.Of(g) {
			others, err := hosts.Sharing(ctx, g, host)
			if err != nil {
				p.mgr.GetLogger().Error(err, "Graphs were not listed", "host", host)
			}
			for i := range others {
				all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&others[i])})
			}
		}
		return all
	}
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

// componentsOfGraph wakes the components of a graph that was paused, or is so no longer.
func componentsOfGraph(p parts) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return components(p, func(all []v1alpha1.DynamoComponentDeployment) []reconcile.Request {
			return component.OfGraph(all, obj.GetName())
		}, true)(ctx, obj)
	}
}

func componentOfPod(parts) handler.MapFunc {
	return func(_ context.Context, pod client.Object) []reconcile.Request { return component.OfPod(pod) }
}

// adapters returns a mapping from an object to the scaling adapters of the graph that it is or refers to.
func adapters(p parts, graph func(client.Object) string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		found, err := observe.AdaptersOf(ctx, p.mgr.GetCache(), client.ObjectKey{Namespace: obj.GetNamespace(), Name: graph(obj)})
		if err != nil {
			p.mgr.GetLogger().Error(err, "Scaling adapters were not listed", "because of", obj.GetName())
			return nil
		}
		requests := make([]reconcile.Request, 0, len(found))
		for i := range found {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found[i])})
		}
		return requests
	}
}

func adaptersOfGraph(p parts) handler.MapFunc { return adapters(p, client.Object.GetName) }

// adaptersOfSameGraph wakes adapters that one more, or one less, makes a difference to.
func adaptersOfSameGraph(p parts) handler.MapFunc {
	return adapters(p, func(obj client.Object) string {
		if adapter, ok := obj.(*v1alpha1.DynamoGraphDeploymentScalingAdapter); ok {
			return adapter.Spec.DGDRef.Name
		}
		return ""
	})
}
