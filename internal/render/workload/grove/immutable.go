// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"fmt"
	"slices"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// wayOut ends every refusal of what Grove does not let change.
const wayOut = "delete the graph and create it again, or put it back"

// keepWhatGroveHolds takes from the live PodCliqueSet what Grove refuses to change, and refuses in turn what cannot be
// had without changing it. Otherwise one such change would keep every other from being applied.
func (g Graph) keepWhatGroveHolds(set *grovev1alpha1.PodCliqueSet) field.ErrorList {
	live := podSpecs(g.Live)
	var errs field.ErrorList
	for _, c := range g.Components {
		errs = append(errs, g.resized(c, live)...)
	}
	for _, clique := range set.Spec.Template.Cliques {
		was := live[clique.Name]
		if was == nil {
			continue
		}
		clique.Spec.MinAvailable = was.Spec.MinAvailable
		clique.Spec.Replicas = max(clique.Spec.Replicas, ptr.Deref(was.Spec.MinAvailable, 1))
		clique.Spec.StartsAfter = was.Spec.StartsAfter
		errs = append(errs, g.keepScheduler(clique, was)...)
	}
	for i := range set.Spec.Template.PodCliqueScalingGroupConfigs {
		group := &set.Spec.Template.PodCliqueScalingGroupConfigs[i]
		for _, was := range g.Live.Spec.Template.PodCliqueScalingGroupConfigs {
			if was.Name == group.Name {
				group.MinAvailable = was.MinAvailable
				if group.Replicas != nil {
					group.Replicas = new(max(*group.Replicas, ptr.Deref(was.MinAvailable, 1)))
				}
			}
		}
	}
	if g.Live.Spec.Template.StartupType != nil {
		set.Spec.Template.StartupType = g.Live.Spec.Template.StartupType
	}
	if ptr.Deref(set.Spec.Template.StartupType, "") == grovev1alpha1.CliqueStartupTypeExplicit {
		keepOrder(set.Spec.Template.Cliques, g.Live.Spec.Template.Cliques)
	}
	return errs
}

// resized refuses another number of nodes, and a change between one and several.
func (g Graph) resized(c input.Component, live map[string]*grovev1alpha1.PodCliqueTemplateSpec) field.ErrorList {
	had := int32(0)
	if live[names.Clique(c.Service())] != nil {
		had = 1
	}
	if workers := live[names.WorkerClique(c.Service())]; workers != nil {
		had = workers.Spec.Replicas + 1
	}
	if nodes := c.Spec.GetNumberOfNodes(); had != 0 && had != nodes {
		return field.ErrorList{field.Invalid(c.Path.Child("multinode", "nodeCount"), nodes, fmt.Sprintf(
			"replicas of this service have %d nodes, and Grove does not let that change: %s", had, wayOut))}
	}
	return nil
}

// keepScheduler leaves pods with the scheduler they have. One that was not asked for, because KAI came to the cluster
// or left it, changes nothing; one that the user asks for cannot be had.
func (g Graph) keepScheduler(clique, was *grovev1alpha1.PodCliqueTemplateSpec) field.ErrorList {
	is, had := clique.Spec.PodSpec.SchedulerName, was.Spec.PodSpec.SchedulerName
	if is == had {
		return nil
	}
	i := slices.IndexFunc(g.Components, func(c input.Component) bool {
		return slices.Contains([]string{names.Clique(c.Service()), names.LeaderClique(c.Service()), names.WorkerClique(c.Service())}, clique.Name)
	})
	if asked := userScheduler(g.Components[i].Spec); asked != "" && asked != had {
		at := g.Components[i].Path.Child("extraPodSpec", "schedulerName")
		return field.ErrorList{field.Invalid(at, asked, fmt.Sprintf("pods run under %q, and Grove does not let that change: %s", had, wayOut))}
	}
	clique.Spec.PodSpec.SchedulerName = had
	delete(clique.Labels, names.LabelQueue)
	if queue := was.Labels[names.LabelQueue]; queue != "" && had == names.KAIScheduler {
		clique.Labels[names.LabelQueue] = queue
	}
	return nil
}

// keepOrder sorts cliques as the live ones are. New ones, of which there are none unless a rule of ours was passed by,
// come last.
func keepOrder(cliques, live []*grovev1alpha1.PodCliqueTemplateSpec) {
	position := map[string]int{}
	for i, clique := range live {
		position[clique.Name] = i - len(live) // all before 0, which is where unknown ones are
	}
	slices.SortStableFunc(cliques, func(a, b *grovev1alpha1.PodCliqueTemplateSpec) int { return position[a.Name] - position[b.Name] })
}
