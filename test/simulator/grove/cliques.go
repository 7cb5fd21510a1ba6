// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demand is what a PodClique is to become.
type demand struct {
	replicas   int32
	generation int64
	// hash is that of the PodClique's template, setHash that of the set, or empty as long as the PodClique waits for its
	// turn in a rolling update.
	hash, setHash string
	// held pods do not become ready.
	held bool
}

func (sc *scene) demand(m member, clique *v1alpha1.PodClique, held bool) demand {
	d := demand{
		replicas: clique.Spec.Replicas, generation: clique.Generation,
		hash: clique.Labels[common.LabelPodTemplateHash], held: held,
	}
	if d.hash == m.hash {
		d.setHash = sc.hash
	}
	return d
}

// step takes a PodClique one step further: with pods it acts on what they have become, without it counts as if there
// were some.
func (s *Simulator) step(ctx context.Context, sc *scene, clique *v1alpha1.PodClique, d demand) (bool, error) {
	status := clique.Status.DeepCopy()
	if s.pods {
		count(status, sc.podsOf(clique), d)
	} else {
		imagine(status, d)
	}
	if !equality.Semantic.DeepEqual(clique.Status, *status) {
		clique.Status = *status
		if err := s.api.Status().Update(ctx, clique); err != nil {
			return false, fmt.Errorf("report PodClique %s: %w", clique.Name, err)
		}
		return true, nil
	}
	if s.pods {
		return s.drive(ctx, sc, clique, d)
	}
	return false, nil
}

// imagine takes the next step of a PodClique whose pods are only numbers: at most one of making pods, removing some,
// letting them become ready, and taking down the next old one.
func imagine(status *v1alpha1.PodCliqueStatus, d demand) {
	status.ObservedGeneration = &d.generation
	switch {
	case begin(status, d):
		// Pods that are not ready are not waited for. Numbers do not remember their template, so one that is wanted again
		// in the middle of an update is as new as any other.
		status.Replicas, status.UpdatedReplicas = status.ReadyReplicas, 0
	case status.Replicas > d.replicas:
		scaleIn(status, d.replicas)
	case status.Replicas < d.replicas:
		status.UpdatedReplicas += d.replicas - status.Replicas
		status.Replicas = d.replicas
	case status.ReadyReplicas < status.Replicas:
		if !d.held {
			status.ReadyReplicas = status.Replicas
		}
	case status.UpdatedReplicas < status.Replicas:
		status.Replicas--
		status.ReadyReplicas--
	}
	status.ScheduledReplicas = status.Replicas
	finish(status, d)
}

// scaleIn removes pods that are not ready first, which are always new ones, and then old before new.
func scaleIn(status *v1alpha1.PodCliqueStatus, replicas int32) {
	surplus, old := status.Replicas-replicas, status.Replicas-status.UpdatedReplicas
	unready := min(surplus, status.Replicas-status.ReadyReplicas)
	status.UpdatedReplicas -= unready + max(0, surplus-unready-old)
	status.ReadyReplicas -= surplus - unready
	status.Replicas = replicas
}

// begin notes that the template of a PodClique has become another one, and says so once.
func begin(status *v1alpha1.PodCliqueStatus, d demand) bool {
	if status.CurrentPodTemplateHash == nil {
		status.CurrentPodTemplateHash = &d.hash
	}
	aim := *status.CurrentPodTemplateHash
	if rolling(status) {
		aim = status.RollingUpdateProgress.PodTemplateHash
	}
	if aim == d.hash {
		return false
	}
	status.RollingUpdateProgress = &v1alpha1.PodCliqueRollingUpdateProgress{
		UpdateStartedAt: metav1.Now(), PodTemplateHash: d.hash, PodCliqueSetGenerationHash: d.setHash,
	}
	return true
}

// rolling says whether a rolling update of a PodClique has begun and not ended.
func rolling(status *v1alpha1.PodCliqueStatus) bool {
	return status.RollingUpdateProgress != nil && status.RollingUpdateProgress.UpdateEndedAt == nil
}

// finish notes that all pods are ready and of the wanted template.
func finish(status *v1alpha1.PodCliqueStatus, d demand) {
	if status.Replicas != d.replicas || status.ReadyReplicas != d.replicas || status.UpdatedReplicas != d.replicas {
		return
	}
	if rolling(status) {
		status.RollingUpdateProgress.UpdateEndedAt = new(metav1.Now())
	}
	status.CurrentPodTemplateHash = &d.hash
	if d.setHash != "" {
		status.CurrentPodCliqueSetGenerationHash = &d.setHash
	}
}
