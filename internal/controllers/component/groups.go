// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// groupReplicas count the replicas of a component of several nodes: each is one LeaderWorkerSet.
func groupReplicas(c *v1alpha1.DynamoComponentDeployment, seen Seen) *v1alpha1.ServiceReplicaStatus {
	counts := &v1alpha1.ServiceReplicaStatus{
		ComponentKind: v1alpha1.ComponentKindLeaderWorkerSet, ComponentName: names.Group(c.Name, 0), ReadyReplicas: ptr.To[int32](0),
	}
	for name, set := range seen.Sets {
		group, size := seen.Groups[name], ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1)
		if group.Present > 0 {
			counts.Replicas++
		}
		if group.Updated >= size && !seen.Waiting[name] {
			counts.UpdatedReplicas++
		}
		if group.Serves {
			*counts.ReadyReplicas++
		}
	}
	return counts
}

// whyGroupsNotReady is empty when every replica is there, of the live generation of its set, and serves. A set that
// waits for its turn to change still counts as not ready: the component's change is not done.
func whyGroupsNotReady(c *v1alpha1.DynamoComponentDeployment, seen Seen) string {
	want := max(ptr.Deref(c.Spec.Replicas, 1), 0)
	done, missing, first := int32(0), int32(0), ""
	for i := range want {
		name := names.Group(c.Name, i)
		set := seen.Sets[name]
		if set == nil {
			missing++
			continue
		}
		group, size := seen.Groups[name], ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1)
		if group.Done(size) && !seen.Waiting[name] {
			done++
			continue
		}
		if first == "" {
			first = fmt.Sprintf("LeaderWorkerSet %s: %d of %d pods are updated, %d of them ready", name, group.Updated, size, group.Ready)
			if why := seen.Denied[name]; why != "" {
				first = fmt.Sprintf("LeaderWorkerSet %s: its pods are refused: %s", name, why)
			}
			if seen.Waiting[name] {
				first = fmt.Sprintf("LeaderWorkerSet %s waits for its turn to be updated", name)
			}
		}
	}
	switch {
	case missing > 0:
		return fmt.Sprintf("%d of %d LeaderWorkerSets are not there yet", missing, want)
	case done < want:
		return fmt.Sprintf("%d of %d replicas are ready; %s", done, want, first)
	}
	return ""
}
