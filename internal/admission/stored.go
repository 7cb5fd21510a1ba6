// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// The controllers judge what is stored by itself, because it may have been stored while nobody judged it: without the
// webhook, or under an older definition.

// Graph returns every problem of a graph that can be seen without looking at the cluster.
func Graph(g *v1alpha1.DynamoGraphDeployment) field.ErrorList {
	return refused(g, Circumstances{}, Reconciler)
}

// Component returns every problem of a component that can be seen without looking at the cluster.
func Component(c *v1alpha1.DynamoComponentDeployment) field.ErrorList {
	return refused(c, Circumstances{}, Reconciler)
}

// Model returns every problem of a model that can be seen without looking at the cluster.
func Model(m *v1alpha1.DynamoModel) field.ErrorList {
	return refused(m, Circumstances{}, Reconciler)
}

// Request returns every problem of a request that can be seen without looking at the cluster. Restricted is true for an
// operator that looks after one namespace, and for one without webhooks: nobody has asked then whether the requester has
// rights in another.
func Request(r *v1alpha1.DynamoGraphDeploymentRequest, restricted bool) field.ErrorList {
	return refused(r, Circumstances{Restricted: restricted}, Reconciler)
}

// ScalingAdapter checks what an adapter says by itself: its number must not make a graph invalid.
func ScalingAdapter(a *v1alpha1.DynamoGraphDeploymentScalingAdapter) field.ErrorList {
	return refused(a, Circumstances{}, Reconciler)
}

// Checkpoint returns every problem of a checkpoint that can be seen without looking at the cluster.
func Checkpoint(c *v1alpha1.DynamoCheckpoint) field.ErrorList {
	return refused(c, Circumstances{}, Reconciler)
}
