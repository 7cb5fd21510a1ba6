// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/tally"
)

// claimKind is never taken away: a claim holds data, and goes with its owner and not with a line of its spec.
const claimKind = "PersistentVolumeClaim"

// lookAgain is when somebody who was behind looks again at the latest. News come sooner.
const lookAgain = time.Second

// prune takes away what the plan no longer names: children of this owner are deleted, shared ones lose a reference and
// go with the last. UID and version go along as preconditions, so that a stale cache can never touch an object that was
// made or changed since; and the owner is asked for at the API server, so that one that is shown as it was can not cost what
// was wanted since. Whoever is behind hears the news soon, and looks again.
func (a *Applier) prune(ctx context.Context, owner client.Object, wanted map[recent.Key]bool, observed Children, result *Result) {
	isOutdated := sync.OnceValues(func() (bool, error) { return a.isOutdated(ctx, owner) })
	for key, cached := range observed {
		live, wake := a.recent.Newest(key, cached)
		result.wakeBy(wake)
		if !isSurplus(owner, key, live, wanted) {
			continue
		}
		if outdated, err := isOutdated(); outdated || err != nil {
			result.take(key, outcome{failed: err, wake: lookAgain})
			continue
		}
		if !metav1.IsControlledBy(live, owner) && len(live.GetOwnerReferences()) > 1 {
			result.take(key, a.leave(ctx, owner, key, live))
			continue
		}
		result.take(key, a.remove(ctx, owner, key, live))
		delete(result.Live, key)
	}
}

// isSurplus tells whether a child is the owner's and no longer wanted.
func isSurplus(owner client.Object, key recent.Key, live client.Object, wanted map[recent.Key]bool) bool {
	return !wanted[key] && live != nil && live.GetDeletionTimestamp() == nil && key.Kind != claimKind &&
		refersTo(live, owner.GetUID()) && madeByOperator(live)
}

// remove deletes a child.
func (a *Applier) remove(ctx context.Context, owner client.Object, key recent.Key, live client.Object) outcome {
	uid, version := live.GetUID(), live.GetResourceVersion()
	err := a.writer.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	a.memory.drop(owner.GetUID(), key)
	if client.IgnoreNotFound(err) != nil {
		return outcome{failed: fmt.Errorf("delete %s: %w", key, err)}
	}
	if err == nil {
		a.Tally.Wrote(ctx, key.Kind, tally.Pruned)
	}
	a.recent.Deleted(key, uid)
	return outcome{}
}

// leave takes this owner's reference off a child that others still need.
func (a *Applier) leave(ctx context.Context, owner client.Object, key recent.Key, live client.Object) outcome {
	a.memory.drop(owner.GetUID(), key)
	_, err := a.edit(ctx, key, live, tally.Released, func(child client.Object) { disown(child, owner) })
	if client.IgnoreNotFound(err) != nil {
		return outcome{failed: fmt.Errorf("leave %s to its other owners: %w", key, err)}
	}
	return outcome{}
}
