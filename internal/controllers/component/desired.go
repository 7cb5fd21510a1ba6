// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package component reconciles DynamoComponentDeployments: spec to a workload and how it is reached, the workload's
// state to the component's status.
package component

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/controllers"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/deployment"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/lws"
	"github.com/dynamo-operator/dynamo-operator/internal/rollout"
)

// Desired is pure: equal components, surroundings and settings give equal plans.
func Desired(c *v1alpha1.DynamoComponentDeployment, w input.World, s input.Settings, scheme *runtime.Scheme) controllers.Plan {
	if problems := admission.Component(c); len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	in := input.FromDeployment(c, s, nil)
	in.World = w
	stages, problems := render.Component(in)
	if len(problems) > 0 {
		return controllers.Plan{Problems: problems}
	}
	return controllers.Prepare(scheme, c, stages)
}

// NeedsKey tells whether a component has to see to its copy of the key pair of mpirun itself, because no graph does.
func NeedsKey(c *v1alpha1.DynamoComponentDeployment, s input.Settings) bool {
	return c.IsMultinode() && c.GetParentGraphDeploymentName() == "" && render.UsesMPI(input.FromDeployment(c, s, nil))
}

// standing is the workload that a component's pods are made by, as far as rendering has to respect it.
type standing struct {
	key recent.Key
	// hash is that of the intent which was applied last.
	hash string
	// world is the one that its pods were rendered in.
	world input.World
	// idle tells that it should serve and no replica does. There is nothing to lose then.
	idle      bool
	templates []*corev1.PodTemplateSpec
	render    func(input.Component) ([]*corev1.PodTemplateSpec, field.ErrorList)
}

func standingDeployment(d *appsv1.Deployment) *standing {
	return &standing{
		key:       recent.KeyOf(deploymentKind, d),
		hash:      d.Annotations[names.AnnotationAppliedHash],
		world:     found(d),
		idle:      d.Status.AvailableReplicas == 0 && ptr.Deref(d.Spec.Replicas, 1) > 0,
		templates: []*corev1.PodTemplateSpec{&d.Spec.Template},
		render: func(c input.Component) ([]*corev1.PodTemplateSpec, field.ErrorList) {
			rendered, problems := deployment.Render(c)
			return []*corev1.PodTemplateSpec{&rendered[0].Spec.Template}, problems
		},
	}
}

func standingGroup(set *lwsv1.LeaderWorkerSet, group observe.Group) *standing {
	s := &standing{
		key:       recent.KeyOf(groupKind, set),
		hash:      set.Annotations[names.AnnotationAppliedHash],
		world:     found(set),
		idle:      !group.Serves,
		templates: []*corev1.PodTemplateSpec{&set.Spec.LeaderWorkerTemplate.WorkerTemplate},
		render: func(c input.Component) ([]*corev1.PodTemplateSpec, field.ErrorList) {
			leader, worker, problems := lws.Templates(c, names.IndexOfGroup(set.Name))
			return []*corev1.PodTemplateSpec{&worker, &leader}, problems
		},
	}
	if leader := set.Spec.LeaderWorkerTemplate.LeaderTemplate; leader != nil {
		s.templates = append(s.templates, leader)
	}
	return s
}

// found is the world that a live workload's pods were rendered in.
func found(live client.Object) input.World {
	var world input.World
	if err := json.Unmarshal([]byte(live.GetAnnotations()[names.AnnotationSurroundings]), &world); err != nil {
		return input.World{} // nothing was found then, or somebody wrote over it
	}
	return world
}

// isFrom tells whether the workload was last applied as it is planned, which is so in nearly every pass and costs nothing to see.
func (s *standing) isFrom(plan apply.Plan) bool {
	for _, stage := range plan {
		for _, intent := range stage {
			if intent.Key == s.key {
				return intent.Hash == s.hash
			}
		}
	}
	return false
}

// keeps tells whether rendering in the world that was found leaves the live pod templates as they are. Then that world
// is kept: a registry secret, account or scheduler that comes or goes must not roll healthy pods. Where a template
// changes anyway, the pods roll and get what is there now.
func (s *standing) keeps(c *v1alpha1.DynamoComponentDeployment, settings input.Settings) bool {
	in := input.FromDeployment(c, settings, nil)
	in.World = s.world
	rendered, problems := s.render(in)
	if len(problems) > 0 || len(rendered) != len(s.templates) {
		return false
	}
	for i := range rendered {
		if same, err := apply.Contained(rendered[i], s.templates[i]); err != nil || !same {
			return false
		}
	}
	return true
}

// HaveToWait returns the groups that are not to be changed yet: replicas of several nodes are replaced one after
// another, each when those before it serve again.
func HaveToWait(c *v1alpha1.DynamoComponentDeployment, plan apply.Plan, seen Seen) map[recent.Key]bool {
	if c.Spec.Annotations[names.AnnotationStrategy] == string(appsv1.RecreateDeploymentStrategyType) {
		return nil
	}
	var groups []rollout.Group
	keys := map[string]recent.Key{}
	for _, stage := range plan {
		for _, intent := range stage {
			if intent.Key.GroupKind != groupKind {
				continue
			}
			group := rollout.Group{Name: intent.Key.Name}
			if set := seen.Sets[group.Name]; set != nil {
				group.Exists = true
				group.Current = set.Annotations[names.AnnotationAppliedHash] == intent.Hash
				group.Ready = seen.Groups[group.Name].Done(ptr.Deref(set.Spec.LeaderWorkerTemplate.Size, 1))
			}
			groups, keys[group.Name] = append(groups, group), intent.Key
		}
	}
	wait := map[recent.Key]bool{}
	for _, group := range groups {
		if group.Exists && !group.Current {
			wait[keys[group.Name]] = true
			wait[gangOf(keys[group.Name])] = true // a gang has the size of the group that is there
		}
	}
	annotations := input.FromDeployment(c, input.Settings{}, nil).ObjectAnnotations()
	for _, name := range rollout.Replace(groups, rollout.MaxUnavailable(annotations[names.AnnotationMaxUnavailable], len(groups), 1)) {
		delete(wait, keys[name])
		delete(wait, gangOf(keys[name]))
	}
	return wait
}

// gangOf is the PodGroup of a LeaderWorkerSet.
func gangOf(set recent.Key) recent.Key {
	return recent.Key{GroupKind: lws.PodGroupKind.GroupKind(), NamespacedName: set.NamespacedName}
}

func waitingNames(keys map[recent.Key]bool) map[string]bool {
	waiting := make(map[string]bool, len(keys))
	for key := range keys {
		waiting[key.Name] = true // a gang has the name of its set
	}
	return waiting
}
