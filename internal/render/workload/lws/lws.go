// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lws renders a component whose replicas span several nodes: one LeaderWorkerSet per replica, so that replicas
// are replaced and taken away one by one, and where Volcano schedules them a PodGroup beside each.
package lws

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/pod"
)

// PodGroupKind is Volcano's gang of pods.
var PodGroupKind = schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"}

// Group is one replica of a component.
type Group struct {
	Set *lwsv1.LeaderWorkerSet
	// Gang is nil where Volcano does not schedule the group.
	Gang *unstructured.Unstructured
}

// longest is how long the name of a group may be: LeaderWorkerSet names a StatefulSet after it with two characters more,
// whose pods carry its name and a hash of ten in one label.
const longest = 63 - len("-0") - len("-") - 10

func tooLong(c input.Component, replicas int32) field.ErrorList {
	name := names.Group(c.Name, replicas-1)
	if len(name) <= longest {
		return nil
	}
	return field.ErrorList{field.Invalid(c.Path, name, fmt.Sprintf(
		"names a LeaderWorkerSet and must have at most %d characters, it has %d: shorten the name of the graph or the service", longest, len(name)))}
}

// Templates are the pod templates of one replica.
func Templates(c input.Component, index int32) (leader, worker corev1.PodTemplateSpec, errs field.ErrorList) {
	leader, errs = template(c, engine.Leader, index)
	worker, more := template(c, engine.Worker, index)
	for _, err := range more {
		if !contains(errs, err) {
			errs = append(errs, err)
		}
	}
	return leader, worker, errs
}

// Render returns the component's replicas.
func Render(c input.Component) ([]Group, field.ErrorList) {
	count := max(ptr.Deref(c.Spec.Replicas, 1), 0)
	groups := make([]Group, 0, count)
	first, errs := leaderWorkerSet(c, 0) // problems are the same for every replica, and are found where there is none
	errs = append(errs, tooLong(c, max(count, 1))...)
	for i := range count {
		group := Group{Set: first}
		if i > 0 {
			group.Set, _ = leaderWorkerSet(c, i)
		}
		if c.World.Volcano && c.Settings.Serves.Volcano {
			group.Gang = podGroup(c, i)
		}
		groups = append(groups, group)
	}
	return groups, errs
}

// leaderWorkerSet sends its rollout type: without it, the schema refuses the set wherever the defaulting webhook of
// LeaderWorkerSet does not run.
func leaderWorkerSet(c input.Component, index int32) (*lwsv1.LeaderWorkerSet, field.ErrorList) {
	leader, worker, errs := Templates(c, index)
	set := &lwsv1.LeaderWorkerSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: names.Group(c.Name, index), Namespace: c.Namespace, Labels: labels(c, index),
		},
		Spec: lwsv1.LeaderWorkerSetSpec{
			Replicas:        ptr.To[int32](1),
			StartupPolicy:   lwsv1.LeaderCreatedStartupPolicy,
			RolloutStrategy: lwsv1.RolloutStrategy{Type: lwsv1.RollingUpdateStrategyType},
			LeaderWorkerTemplate: lwsv1.LeaderWorkerTemplate{
				Size: new(c.Spec.GetNumberOfNodes()), LeaderTemplate: &leader, WorkerTemplate: worker,
			},
		},
	}
	if !c.World.IsEmpty() {
		found, err := json.Marshal(c.World)
		if err != nil {
			errs = append(errs, field.InternalError(c.Path, err))
		}
		set.Annotations = map[string]string{names.AnnotationSurroundings: string(found)}
	}
	return set, errs
}

func template(c input.Component, role engine.Role, index int32) (corev1.PodTemplateSpec, field.ErrorList) {
	t, errs := pod.Template(c, pod.Options{Group: &engine.Group{
		Orchestrator: engine.LeaderWorkerSet, Role: role, Nodes: c.Spec.GetNumberOfNodes(), SSHSecret: c.Settings.SSHSecret,
	}})
	own := labels(c, index)
	if role == engine.Worker {
		delete(own, names.LabelBaseModelHash)
	}
	maps.Copy(t.Labels, own)
	delete(t.Labels, names.LabelSelector) // LeaderWorkerSet selects by labels of its own
	t.Labels[names.LabelRole] = names.Leader
	if role == engine.Worker {
		t.Labels[names.LabelRole] = names.Worker
	}
	if c.World.Volcano {
		if t.Annotations == nil {
			t.Annotations = map[string]string{}
		}
		t.Annotations[names.AnnotationGang] = names.Group(c.Name, index)
		t.Spec.SchedulerName = names.VolcanoScheduler
	}
	return t, errs
}

func labels(c input.Component, index int32) map[string]string {
	own := c.ObjectLabels()
	own[names.LabelInstance] = strconv.Itoa(int(index))
	return own
}

// podGroup makes all nodes of a replica start together or not at all.
func podGroup(c input.Component, index int32) *unstructured.Unstructured {
	gang := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"minMember": int64(c.Spec.GetNumberOfNodes())},
	}}
	gang.SetGroupVersionKind(PodGroupKind)
	gang.SetName(names.Group(c.Name, index))
	gang.SetNamespace(c.Namespace)
	gang.SetLabels(map[string]string{names.LabelInstance: strconv.Itoa(int(index))})
	return gang
}

func contains(errs field.ErrorList, err *field.Error) bool {
	for _, e := range errs {
		if e.Field == err.Field && e.Detail == err.Detail {
			return true
		}
	}
	return false
}
