// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// state is what a replica of a scaling group adds to the numbers of its group.
type state struct{ scheduled, available, updated bool }

// groupMembers returns the PodCliques of one replica of a group.
func (sc *scene) groupMembers(group string, replica int) []member {
	var members []member
	for _, m := range sc.members {
		if m.group != nil && m.group.Name == group && m.groupReplica == replica {
			members = append(members, m)
		}
	}
	return members
}

// replicaState asks all PodCliques of a replica of a group. It is updated once it was made from the latest templates,
// whether or not its pods are ready.
func (sc *scene) replicaState(group string, replica int) state {
	all := state{scheduled: true, available: true, updated: true}
	for _, m := range sc.groupMembers(group, replica) {
		clique := sc.cliques[m.name]
		least := ptr.Deref(clique.Spec.MinAvailable, clique.Spec.Replicas)
		all.scheduled = all.scheduled && clique.Status.ScheduledReplicas >= least
		all.available = all.available && clique.Status.ReadyReplicas >= least
		all.updated = all.updated && clique.Labels[common.LabelPodTemplateHash] == m.hash
	}
	return all
}

// groupStatus recomputes the status of a scaling group from its PodCliques.
func (sc *scene) groupStatus(group *v1alpha1.PodCliqueScalingGroup) v1alpha1.PodCliqueScalingGroupStatus {
	status := *group.Status.DeepCopy()
	status.ObservedGeneration = &group.Generation
	status.Replicas = group.Spec.Replicas
	status.ScheduledReplicas, status.AvailableReplicas, status.UpdatedReplicas = 0, 0, 0
	for g := range int(group.Spec.Replicas) {
		s := sc.replicaState(group.Name, g)
		status.ScheduledReplicas += one(s.scheduled)
		status.AvailableReplicas += one(s.available)
		status.UpdatedReplicas += one(s.updated)
	}
	progress := status.RollingUpdateProgress
	switch {
	case status.UpdatedReplicas < status.Replicas:
		if progress == nil || progress.PodCliqueSetGenerationHash != sc.hash {
			status.RollingUpdateProgress = &v1alpha1.PodCliqueScalingGroupRollingUpdateProgress{
				UpdateStartedAt: metav1.Now(), PodCliqueSetGenerationHash: sc.hash,
			}
		}
	case status.AvailableReplicas == status.Replicas:
		status.CurrentPodCliqueSetGenerationHash = &sc.hash
		if progress != nil && progress.UpdateEndedAt == nil {
			progress.UpdateEndedAt = new(metav1.Now())
		}
	}
	return status
}

func one(counts bool) int32 {
	if counts {
		return 1
	}
	return 0
}

// setStatus recomputes the numbers of the set from its PodCliques and groups.
func (sc *scene) setStatus() *v1alpha1.PodCliqueSetStatus {
	status := sc.set.Status.DeepCopy()
	status.Replicas = sc.set.Spec.Replicas
	status.AvailableReplicas, status.UpdatedReplicas = 0, 0
	for r := range int(sc.set.Spec.Replicas) {
		status.AvailableReplicas += one(sc.available(r))
		status.UpdatedReplicas += one(sc.updated(r))
	}
	if p := status.RollingUpdateProgress; p != nil && p.UpdateEndedAt == nil && status.UpdatedReplicas == status.Replicas {
		p.UpdateEndedAt = new(metav1.Now())
	}
	return status
}

// available says whether every PodClique and group of a replica of the set has its minimum.
func (sc *scene) available(replica int) bool {
	for _, m := range sc.members {
		if clique := sc.cliques[m.name]; m.replica == replica && m.group == nil &&
			clique.Status.ReadyReplicas < ptr.Deref(clique.Spec.MinAvailable, clique.Spec.Replicas) {
			return false
		}
	}
	for _, plan := range groupPlans(sc.set) {
		if group := sc.groups[plan.name]; plan.replica == replica &&
			group.Status.AvailableReplicas < ptr.Deref(group.Spec.MinAvailable, 1) {
			return false
		}
	}
	return true
}

// updated says whether a replica of the set has nothing but ready pods of the latest templates, so that a rolling update
// can go on to the next.
func (sc *scene) updated(replica int) bool {
	for _, m := range sc.members {
		if m.replica != replica {
			continue
		}
		clique := sc.cliques[m.name]
		if clique.Labels[common.LabelPodTemplateHash] != m.hash || ptr.Deref(clique.Status.CurrentPodTemplateHash, "") != m.hash ||
			rolling(&clique.Status) || clique.Status.ReadyReplicas != clique.Spec.Replicas {
			return false
		}
	}
	return true
}
