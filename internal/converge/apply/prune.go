// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
)

// prune deletes the children that the plan no longer names. UID and version go along as preconditions, so that a stale
// cache can never delete an object that was made or changed since.
func (a *Applier) prune(ctx context.Context, owner client.Object, wanted map[recent.Key]bool, observed Children, result *Result) {
	for key, cached := range observed {
		live, wake := a.recent.Newest(key, cached)
		result.wakeBy(wake)
		if wanted[key] || live == nil || live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(live, owner) {
			continue
		}
		uid, version := live.GetUID(), live.GetResourceVersion()
		err := a.writer.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		result.Writes++
		a.memory.drop(owner.GetUID(), key)
		if err != nil && !apierrors.IsNotFound(err) {
			result.Failures = append(result.Failures, Failure{Key: key, Err: fmt.Errorf("delete %s: %w", key, err)})
			continue
		}
		a.recent.Deleted(key, uid)
	}
}
