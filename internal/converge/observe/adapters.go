// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// IsLeftAlone tells whether an adapter has nothing to do any more: its graph is on its way out, or the one that it was
// made for is gone and it goes too. A graph that was made again under the old name starts with its own numbers.
func IsLeftAlone(a *v1alpha1.DynamoGraphDeploymentScalingAdapter, graph *v1alpha1.DynamoGraphDeployment) bool {
	if graph != nil && graph.DeletionTimestamp != nil {
		return true
	}
	maker := metav1.GetControllerOf(a)
	return maker != nil && maker.Kind == v1alpha1.KindDynamoGraphDeployment && maker.Name == a.Spec.DGDRef.Name &&
		(graph == nil || graph.UID != maker.UID)
}

// Holder returns which of the adapters of a graph has a service, nil for none. The oldest has it, and of two that are
// equally old the one whose name comes first, so that the graph and all of them agree.
func Holder(
	graph *v1alpha1.DynamoGraphDeployment, service string, adapters []v1alpha1.DynamoGraphDeploymentScalingAdapter,
) *v1alpha1.DynamoGraphDeploymentScalingAdapter {
	var first *v1alpha1.DynamoGraphDeploymentScalingAdapter
	for i := range adapters {
		a := &adapters[i]
		if a.Spec.DGDRef.ServiceName != service || a.DeletionTimestamp != nil || IsLeftAlone(a, graph) {
			continue
		}
		if first == nil || cmp.Or(a.CreationTimestamp.Compare(first.CreationTimestamp.Time), strings.Compare(a.Name, first.Name)) < 0 {
			first = a
		}
	}
	return first
}
