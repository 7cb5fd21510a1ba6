// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grove renders all workloads of a graph as one PodCliqueSet: a clique for each service, and for one whose
// replicas span several nodes a leader and a worker clique that scale together.
package grove

import (
	"encoding/json"
	"fmt"
	"slices"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/pod"
)

// Graph is a graph as Grove will see it.
type Graph struct {
	Name, Namespace string
	// Components are its services in the order of their names.
	Components []input.Component
	// Queue is where KAI lets the graph's pods wait, empty where KAI does not schedule them.
	Queue    string
	Settings input.Settings
	// Live is the PodCliqueSet that is there, nil for none. Grove lets some of its fields never change.
	Live *grovev1alpha1.PodCliqueSet
}

// longestName is Grove's limit for the names of set, scaling group and clique together: its pods are called after all
// of them.
const longestName = 45

// Render returns the graph's PodCliqueSet.
func Render(g Graph) (*grovev1alpha1.PodCliqueSet, field.ErrorList) {
	set := &grovev1alpha1.PodCliqueSet{
		ObjectMeta: metav1.ObjectMeta{Name: g.Name, Namespace: g.Namespace},
		Spec: grovev1alpha1.PodCliqueSetSpec{Replicas: 1, Template: grovev1alpha1.PodCliqueSetTemplateSpec{
			HeadlessServiceConfig: &grovev1alpha1.HeadlessServiceConfig{PublishNotReadyAddresses: true},
			StartupType:           ptr.To(grovev1alpha1.CliqueStartupTypeAnyOrder),
		}},
	}
	if g.Settings.GroveTerminationDelay > 0 {
		set.Spec.Template.TerminationDelay = &metav1.Duration{Duration: g.Settings.GroveTerminationDelay}
	}
	var errs field.ErrorList
	worlds := map[string]input.World{}
	for _, c := range g.Components {
		cliques, problems := g.cliques(c)
		errs = append(errs, problems...)
		set.Spec.Template.Cliques = append(set.Spec.Template.Cliques, cliques...)
		if len(cliques) > 1 {
			set.Spec.Template.PodCliqueScalingGroupConfigs = append(set.Spec.Template.PodCliqueScalingGroupConfigs, scalingGroup(c))
		}
		if slices.ContainsFunc(cliques, func(q *grovev1alpha1.PodCliqueTemplateSpec) bool { return len(q.Spec.StartsAfter) > 0 }) {
			set.Spec.Template.StartupType = ptr.To(grovev1alpha1.CliqueStartupTypeExplicit)
		}
		if !c.World.IsEmpty() {
			worlds[c.Service()] = c.World
		}
	}
	if len(worlds) > 0 {
		found, err := json.Marshal(worlds)
		if err != nil {
			errs = append(errs, field.InternalError(field.NewPath("spec"), err))
		}
		set.Annotations = map[string]string{names.AnnotationSurroundings: string(found)}
	}
	if g.Live != nil {
		errs = append(errs, g.keepWhatGroveHolds(set)...)
	}
	return set, errs
}

// Worlds are the surroundings in which the services of a live PodCliqueSet were rendered.
func Worlds(live *grovev1alpha1.PodCliqueSet) map[string]input.World {
	var worlds map[string]input.World
	if err := json.Unmarshal([]byte(live.Annotations[names.AnnotationSurroundings]), &worlds); err != nil {
		return nil // nothing was found then, or somebody wrote over it
	}
	return worlds
}

// cliques are one clique, or leader and workers.
func (g Graph) cliques(c input.Component) ([]*grovev1alpha1.PodCliqueTemplateSpec, field.ErrorList) {
	replicas := max(ptr.Deref(c.Spec.Replicas, 1), 0)
	if !c.Spec.IsMultinode() {
		name := names.Clique(c.Service())
		only, errs := g.clique(c, pod.Options{}, name)
		// Grove takes no set with less than one; what is to have none is scaled to it once it is there.
		only.Spec.Replicas, only.Spec.MinAvailable = max(replicas, 1), ptr.To[int32](1)
		return []*grovev1alpha1.PodCliqueTemplateSpec{only}, append(errs, g.tooLong(c, name)...)
	}
	group := engine.Group{Orchestrator: engine.Grove, Nodes: c.Spec.GetNumberOfNodes(), SSHSecret: g.Settings.SSHSecret}
	lead, work := group, group
	lead.Role, work.Role = engine.Leader, engine.Worker
	leader, errs := g.clique(c, pod.Options{Group: &lead}, names.LeaderClique(c.Service()))
	worker, more := g.clique(c, pod.Options{Group: &work}, names.WorkerClique(c.Service()))
	errs = append(errs, slices.DeleteFunc(more, func(e *field.Error) bool {
		return slices.ContainsFunc(errs, func(o *field.Error) bool { return o.Field == e.Field && o.Detail == e.Detail })
	})...)
	leader.Labels[names.LabelRole], worker.Labels[names.LabelRole] = names.Leader, names.Worker
	leader.Spec.Replicas, leader.Spec.MinAvailable = 1, ptr.To[int32](1)
	// An engine that lacks one of its nodes does nothing, so the gang is all of them.
	worker.Spec.Replicas, worker.Spec.MinAvailable = group.Nodes-1, new(group.Nodes-1)
	if framework, _ := engine.Framework(c); engine.NeedsSSH(framework) {
		// mpirun logs in to every worker when it starts.
		leader.Spec.StartsAfter = []string{worker.Name}
	}
	return []*grovev1alpha1.PodCliqueTemplateSpec{leader, worker}, append(errs, g.tooLong(c, names.Clique(c.Service()), leader.Name)...)
}

func (g Graph) clique(c input.Component, o pod.Options, name string) (*grovev1alpha1.PodCliqueTemplateSpec, field.ErrorList) {
	o.Workload = c.Name
	template, errs := pod.Template(c, o)
	clique := &grovev1alpha1.PodCliqueTemplateSpec{
		Name: name, Labels: template.Labels, Annotations: template.Annotations,
		Spec: grovev1alpha1.PodCliqueSpec{RoleName: name, PodSpec: template.Spec},
	}
	if backend := c.Discovery(); backend != "" {
		if clique.Annotations == nil {
			clique.Annotations = map[string]string{}
		}
		clique.Annotations[names.AnnotationDiscoveryBackend] = backend // pods on Grove have always carried it
	}
	g.schedule(clique)
	return clique, errs
}

// schedule hands the pods of a clique to KAI unless the user chose another scheduler.
func (g Graph) schedule(clique *grovev1alpha1.PodCliqueTemplateSpec) {
	spec := &clique.Spec.PodSpec
	if g.Queue == "" || (spec.SchedulerName != "" && spec.SchedulerName != names.KAIScheduler) {
		return
	}
	spec.SchedulerName = names.KAIScheduler
	clique.Labels[names.LabelQueue] = g.Queue
}

func scalingGroup(c input.Component) grovev1alpha1.PodCliqueScalingGroupConfig {
	return grovev1alpha1.PodCliqueScalingGroupConfig{
		Name:         names.Clique(c.Service()),
		CliqueNames:  []string{names.LeaderClique(c.Service()), names.WorkerClique(c.Service())},
		Replicas:     atLeastOne(c.Spec.Replicas),
		MinAvailable: ptr.To[int32](1),
	}
}

func atLeastOne(n *int32) *int32 {
	if n == nil {
		return nil
	}
	return new(max(*n, 1))
}

func (g Graph) tooLong(c input.Component, parts ...string) field.ErrorList {
	length := len(g.Name)
	for _, part := range parts {
		length += len(part)
	}
	if length <= longestName {
		return nil
	}
	return field.ErrorList{field.Invalid(c.Path, c.Service(), fmt.Sprintf(
		"Grove allows %d characters for the names of graph, scaling group and clique together, these have %d: "+
			"shorten the name of the graph or the service, or set the graph's annotation %s to \"false\"",
		longestName, length, names.AnnotationEnableGrove))}
}

// UsesKAI tells whether KAI would schedule a pod of the graph, which is when its queue has to exist.
func UsesKAI(g *v1alpha1.DynamoGraphDeployment) bool {
	for _, service := range g.Spec.Services {
		if service == nil {
			continue
		}
		if scheduler := userScheduler(service); scheduler == "" || scheduler == names.KAIScheduler {
			return true
		}
	}
	return false
}

func userScheduler(service *v1alpha1.DynamoComponentDeploymentSharedSpec) string {
	if service.ExtraPodSpec == nil || service.ExtraPodSpec.PodSpec == nil {
		return ""
	}
	return service.ExtraPodSpec.SchedulerName
}

// podSpecs is where a live clique's pod template is, by the clique's name.
func podSpecs(live *grovev1alpha1.PodCliqueSet) map[string]*grovev1alpha1.PodCliqueTemplateSpec {
	byName := map[string]*grovev1alpha1.PodCliqueTemplateSpec{}
	for _, clique := range live.Spec.Template.Cliques {
		byName[clique.Name] = clique
	}
	return byName
}

// Templates are the pod templates of a PodCliqueSet by clique.
func Templates(set *grovev1alpha1.PodCliqueSet) map[string]corev1.PodTemplateSpec {
	templates := map[string]corev1.PodTemplateSpec{}
	for name, clique := range podSpecs(set) {
		templates[name] = corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: clique.Labels, Annotations: clique.Annotations}, Spec: clique.Spec.PodSpec,
		}
	}
	return templates
}
