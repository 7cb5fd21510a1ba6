// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// byGraph is the name of the index from a graph's name to the adapters that refer to it.
const byGraph = "graph"

// IndexAdapters makes scaling adapters findable by the graph that they refer to.
func IndexAdapters(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.DynamoGraphDeploymentScalingAdapter{}, byGraph, func(obj client.Object) []string {
		if adapter, ok := obj.(*v1alpha1.DynamoGraphDeploymentScalingAdapter); ok {
			return []string{adapter.Spec.DGDRef.Name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index scaling adapters by their graph: %w", err)
	}
	return nil
}

// AdaptersOf returns the scaling adapters that refer to a graph. They are the cache's own and must not be changed.
func AdaptersOf(ctx context.Context, cache client.Reader, graph client.ObjectKey) ([]v1alpha1.DynamoGraphDeploymentScalingAdapter, error) {
	var found v1alpha1.DynamoGraphDeploymentScalingAdapterList
	err := cache.List(ctx, &found, client.InNamespace(graph.Namespace), client.MatchingFields{byGraph: graph.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list scaling adapters of graph %q: %w", graph.Name, err)
	}
	return found.Items, nil
}
