// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// byHost is the name of the index from a host to the graphs that publish it.
const byHost = "host"

// Hosts tells which graphs publish a host.
type Hosts struct {
	Cache client.Reader
	// Of returns the hosts that a graph publishes.
	Of func(*v1alpha1.DynamoGraphDeployment) []string
}

// Index makes graphs findable by the hosts they publish.
func (h Hosts) Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &v1alpha1.DynamoGraphDeployment{}, byHost, func(obj client.Object) []string {
		g, ok := obj.(*v1alpha1.DynamoGraphDeployment)
		if !ok {
			return nil
		}
		return h.Of(g)
	})
	if err != nil {
		return fmt.Errorf("index graphs by the hosts they publish: %w", err)
	}
	return nil
}

// Sharing returns the other graphs that publish a host.
func (h Hosts) Sharing(ctx context.Context, g *v1alpha1.DynamoGraphDeployment, host string) ([]v1alpha1.DynamoGraphDeployment, error) {
	var found v1alpha1.DynamoGraphDeploymentList
	if err := h.Cache.List(ctx, &found, client.MatchingFields{byHost: host}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list graphs that publish %s: %w", host, err)
	}
	return slices.DeleteFunc(slices.Clone(found.Items), func(o v1alpha1.DynamoGraphDeployment) bool { return o.UID == g.UID }), nil
}
