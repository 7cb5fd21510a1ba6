// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"context"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
)

// claimKind is the kind of what holds a graph's data.
const claimKind = "PersistentVolumeClaim"

// observe returns the graph's children. Claims that are to outlive it are let go first, before anything can be wrong with
// the graph: also those that its spec no longer names would die with it.
func (r *Reconciler) observe(ctx context.Context, g *v1alpha1.DynamoGraphDeployment) (apply.Children, error) {
	children, err := r.Observe.Children(ctx, g, nil)
	if err != nil || !render.RetainsClaims(g) || controllers.IsPaused(g) {
		return children, err
	}
	return children, r.Apply.Release(ctx, g, ofKind(children, claimKind))
}
