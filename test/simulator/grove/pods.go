// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/ai-dynamo/grove/operator/api/common"
	"github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holdAnnotation keeps simulated nodes from starting a pod.
const holdAnnotation = "dynamo-local/hold"

// podsOf returns the pods of a PodClique by their names, those that are being deleted included.
func (sc *scene) podsOf(clique *v1alpha1.PodClique) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for i := range sc.pods {
		if sc.pods[i].Labels[common.LabelPodClique] == clique.Name {
			pods[sc.pods[i].Name] = &sc.pods[i]
		}
	}
	return pods
}

// count makes the status of a PodClique from its pods. As in Grove a ready pod counts as ready also with an old template.
func count(status *v1alpha1.PodCliqueStatus, pods map[string]*corev1.Pod, d demand) {
	status.ObservedGeneration = &d.generation
	begin(status, d)
	status.Replicas, status.ReadyReplicas, status.ScheduledReplicas, status.UpdatedReplicas = 0, 0, 0, 0
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		status.Replicas++
		status.ReadyReplicas += one(ready(pod))
		status.ScheduledReplicas += one(pod.Spec.NodeName != "")
		status.UpdatedReplicas += one(pod.Labels[common.LabelPodTemplateHash] == d.hash)
	}
	finish(status, d)
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// drive acts on the pods of a PodClique whose status is up to date. Pods keep their index: one that is replaced has to
// be gone before its successor can be made.
func (s *Simulator) drive(ctx context.Context, sc *scene, clique *v1alpha1.PodClique, d demand) (bool, error) {
	pods := sc.podsOf(clique)
	doomed, missing := d.compare(clique, pods)
	moved, err := s.remove(ctx, append(doomed, d.toReplace(pods)...))
	if moved || err != nil {
		return moved, err
	}
	for _, index := range missing {
		if err := s.make(ctx, clique, newPod(sc.set, clique, index, d)); err != nil {
			return true, err
		}
	}
	if len(missing) > 0 || d.held {
		return len(missing) > 0, nil
	}
	return s.letGo(ctx, pods)
}

// compare returns the pods whose index is not wanted and the indices that no pod has.
func (d demand) compare(clique *v1alpha1.PodClique, pods map[string]*corev1.Pod) (doomed []client.Object, missing []int32) {
	wanted := map[string]bool{}
	for index := range d.replicas {
		name := podName(clique, index)
		wanted[name] = true
		if pods[name] == nil {
			missing = append(missing, index)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if !wanted[name] {
			doomed = append(doomed, pods[name])
		}
	}
	return doomed, missing
}

// toReplace returns the pods of an old template that may be taken down now: all that are not ready anyway, or else the
// first one once as many pods as wanted are ready.
func (d demand) toReplace(pods map[string]*corev1.Pod) []client.Object {
	var old, broken []client.Object
	working := int32(0)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[name]
		if pod.DeletionTimestamp != nil {
			continue
		}
		works := ready(pod)
		working += one(works)
		if pod.Labels[common.LabelPodTemplateHash] == d.hash {
			continue
		}
		old = append(old, pod)
		if !works {
			broken = append(broken, pod)
		}
	}
	switch {
	case len(broken) > 0:
		return broken
	case len(old) > 0 && working >= d.replicas:
		return old[:1]
	default:
		return nil
	}
}

// letGo lets the pods start that were made while their PodClique was held.
func (s *Simulator) letGo(ctx context.Context, pods map[string]*corev1.Pod) (bool, error) {
	moved := false
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		pod := pods[name]
		if _, held := pod.Annotations[holdAnnotation]; !held || pod.DeletionTimestamp != nil {
			continue
		}
		moved = true
		delete(pod.Annotations, holdAnnotation)
		if err := s.api.Update(ctx, pod); err != nil {
			return moved, fmt.Errorf("let pod %s go: %w", name, err)
		}
	}
	return moved, nil
}

// podName is also the hostname, by which pods of a clique find each other under the headless Service of their replica.
func podName(clique *v1alpha1.PodClique, index int32) string {
	return fmt.Sprintf("%s-%d", clique.Name, index)
}

// newPod is a pod as Grove makes it, with all labels of its PodClique.
func newPod(set *v1alpha1.PodCliqueSet, clique *v1alpha1.PodClique, index int32, d demand) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = podName(clique, index), clique.Namespace
	pod.Labels, pod.Annotations = maps.Clone(clique.Labels), maps.Clone(clique.Annotations)
	pod.Labels[common.LabelAppNameKey] = pod.Name
	pod.Labels[common.LabelPodClique] = clique.Name
	if d.held {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[holdAnnotation] = "true"
	}
	clique.Spec.PodSpec.DeepCopyInto(&pod.Spec)
	replica, _ := strconv.Atoi(clique.Labels[common.LabelPodCliqueSetReplicaIndex]) // written by this package
	pod.Spec.Hostname = pod.Name
	pod.Spec.Subdomain = common.GenerateHeadlessServiceName(common.ResourceNameReplica{Name: set.Name, Replica: replica})
	return pod
}
