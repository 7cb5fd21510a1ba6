// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

var (
	cliqueSetKind    = schema.GroupKind{Group: grovev1alpha1.SchemeGroupVersion.Group, Kind: "PodCliqueSet"}
	cliqueKind       = schema.GroupKind{Group: grovev1alpha1.SchemeGroupVersion.Group, Kind: "PodClique"}
	scalingGroupKind = schema.GroupKind{Group: grovev1alpha1.SchemeGroupVersion.Group, Kind: "PodCliqueScalingGroup"}
)

// progress is how far Grove is with a service, in the terms that cliques and scaling groups share.
type progress struct {
	generation                      int64
	observed                        *int64
	setHash                         *string
	want, serving, updated, present int32
	// asked is what the graph wants, nil if it says nothing.
	asked *int32
	// serves is the word for replicas that serve.
	serves string
}

// why it is not ready, empty for ready.
func (p progress) why(set *grovev1alpha1.PodCliqueSet) string {
	switch {
	case p.asked != nil && *p.asked != p.want:
		return fmt.Sprintf("desired=%d, asked of Grove=%d", *p.asked, p.want)
	case p.want == 0:
	case p.serving != p.want:
		return fmt.Sprintf("desired=%d, %s=%d", p.want, p.serves, p.serving)
	case p.updated != p.want:
		return fmt.Sprintf("desired=%d, updated=%d", p.want, p.updated)
	case p.present != p.want:
		return fmt.Sprintf("performing rolling update: desired=%d, replicas=%d", p.want, p.present)
	}
	return p.outdated(set)
}

// outdated tells why what Grove reports is about the past: until it has taken over the latest PodCliqueSet, nobody knows
// how far it is with it.
func (p progress) outdated(set *grovev1alpha1.PodCliqueSet) string {
	switch {
	case set == nil:
		return "waiting for its PodCliqueSet"
	case set.Status.ObservedGeneration == nil || *set.Status.ObservedGeneration < set.Generation:
		return "Grove has not processed the latest PodCliqueSet yet"
	case p.observed == nil:
		return "observedGeneration is nil"
	case *p.observed < p.generation:
		return fmt.Sprintf("spec not yet processed: generation=%d, observedGeneration=%d", p.generation, *p.observed)
	case p.setHash != nil && set.Status.CurrentGenerationHash != nil && *p.setHash != *set.Status.CurrentGenerationHash:
		return "the latest PodCliqueSet has not been rolled out yet"
	}
	return ""
}

// missing is what is said of what Grove has not made yet.
const missing = "resource not found"

func asClique(name string, asked *int32, q *grovev1alpha1.PodClique, set *grovev1alpha1.PodCliqueSet) Service {
	found := q.UID != ""
	report := Service{Counts: v1alpha1.ServiceReplicaStatus{
		ComponentKind: v1alpha1.ComponentKindPodClique, ComponentName: name,
		Replicas: q.Status.Replicas, UpdatedReplicas: q.Status.UpdatedReplicas, ReadyReplicas: &q.Status.ReadyReplicas,
	}}
	why := missing
	if found {
		report.Exists, report.scales = true, q
		report.Serves = q.Status.ReadyReplicas > 0 || q.Spec.Replicas == 0
		p := progress{
			generation: q.Generation, observed: q.Status.ObservedGeneration, setHash: q.Status.CurrentPodCliqueSetGenerationHash,
			want: q.Spec.Replicas, serving: q.Status.ReadyReplicas, updated: q.Status.UpdatedReplicas, present: q.Status.Replicas, asked: asked, serves: "ready",
		}
		why, report.Outdated = p.why(set), p.outdated(set) != ""
	}
	if why != "" {
		report.Why = "podclique/" + name + ": " + why
	}
	return report
}

func asScalingGroup(name string, asked *int32, s *grovev1alpha1.PodCliqueScalingGroup, set *grovev1alpha1.PodCliqueSet) Service {
	found := s.UID != ""
	report := Service{Counts: v1alpha1.ServiceReplicaStatus{
		ComponentKind: v1alpha1.ComponentKindPodCliqueScalingGroup, ComponentName: name,
		Replicas: s.Status.Replicas, UpdatedReplicas: s.Status.UpdatedReplicas, AvailableReplicas: &s.Status.AvailableReplicas,
	}}
	why := missing
	if found {
		report.Exists, report.scales = true, s
		report.Serves = s.Status.AvailableReplicas > 0 || s.Spec.Replicas == 0
		p := progress{
			generation: s.Generation, observed: s.Status.ObservedGeneration, setHash: s.Status.CurrentPodCliqueSetGenerationHash,
			want: s.Spec.Replicas, serving: s.Status.AvailableReplicas, updated: s.Status.UpdatedReplicas, present: s.Status.Replicas, asked: asked, serves: "available",
		}
		why, report.Outdated = p.why(set), p.outdated(set) != ""
	}
	if why != "" {
		report.Why = "pcsg/" + name + ": " + why
	}
	return report
}

// restartOf is the restart token that a service's cliques carry.
func restartOf(set *grovev1alpha1.PodCliqueSet, service string) string {
	if set == nil {
		return ""
	}
	for _, clique := range set.Spec.Template.Cliques {
		if clique.Labels[names.LabelComponent] == service {
			return clique.Annotations[names.AnnotationRestartAt]
		}
	}
	return ""
}
