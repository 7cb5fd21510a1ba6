// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"context"
	"time"

	"k8s.io/utils/ptr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
)

// denied finds out why sets get no pods. A positive duration asks for another look: nothing wakes us when a quota is in
// the way, and nothing when it no longer is. Not to find out is no reason to say nothing else.
func (r *Reconciler) denied(ctx context.Context, seen *Seen) time.Duration {
	var again time.Duration
	for name, set := range seen.Sets {
		if seen.Groups[name].Present >= ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1) {
			continue
		}
		again = observe.AskAgain
		if !r.Denials.Overdue(wantedSince(set)) {
			again = time.Second
			continue
		}
		why, err := r.Denials.Of(ctx, set.Namespace, name)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Why pods are missing could not be found out", "LeaderWorkerSet", name)
			continue
		}
		if seen.Denied == nil {
			seen.Denied = map[string]string{}
		}
		seen.Denied[name] = why
	}
	return again
}

// wantedSince is when a set was made. When it was changed cannot be read from it, and one that is being replaced has pods.
func wantedSince(set *lwsv1.LeaderWorkerSet) time.Time { return set.CreationTimestamp.Time }

// soonest is the smaller of two wishes, of which 0 is none.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
