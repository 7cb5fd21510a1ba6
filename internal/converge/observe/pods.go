// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// byWorkload is the name of the index from a workload's name to its pods.
const byWorkload = "workload"

// FoldPod reduces a pod to what tells whose it is, of which revision, whether it serves and what keeps it from that.
// Pods are by far the most numerous objects the operator holds, and their specs by far the largest part of them.
func FoldPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
			Labels: p.Labels, OwnerReferences: p.OwnerReferences, DeletionTimestamp: p.DeletionTimestamp,
			Annotations: only(p.Annotations, names.AnnotationRestartAt),
		},
		Status: corev1.PodStatus{
			Phase: p.Status.Phase, Reason: p.Status.Reason, Message: p.Status.Message, PodIPs: p.Status.PodIPs,
			Conditions:            foldConditions(p.Status.Conditions),
			InitContainerStatuses: foldContainers(p.Status.InitContainerStatuses),
			ContainerStatuses:     foldContainers(p.Status.ContainerStatuses),
		},
	}, nil
}

func only(m map[string]string, key string) map[string]string {
	if value, ok := m[key]; ok {
		return map[string]string{key: value}
	}
	return nil
}

// foldConditions keeps the two that say whether a pod serves and whether it found a node, without their times.
func foldConditions(all []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for _, c := range all {
		if c.Type == corev1.PodReady || c.Type == corev1.PodScheduled {
			kept = append(kept, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return kept
}

// foldContainers keeps what a container waits for or ended with, without ids and times.
func foldContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, c := range all {
		kept = append(kept, corev1.ContainerStatus{
			Name: c.Name, Ready: c.Ready, Started: c.Started, RestartCount: c.RestartCount,
			State: foldState(c.State), LastTerminationState: foldState(c.LastTerminationState),
		})
	}
	return kept
}

func foldState(s corev1.ContainerState) corev1.ContainerState {
	var kept corev1.ContainerState
	if s.Waiting != nil {
		kept.Waiting = s.Waiting
	}
	if s.Running != nil {
		kept.Running = &corev1.ContainerStateRunning{}
	}
	if s.Terminated != nil {
		kept.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: s.Terminated.ExitCode, Reason: s.Terminated.Reason, Message: s.Terminated.Message,
		}
	}
	return kept
}

// IndexPods makes pods findable by the workload they belong to.
func IndexPods(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Pod{}, byWorkload, func(obj client.Object) []string {
		if workload := WorkloadOf(obj); workload != "" {
			return []string{workload}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index pods by their workload: %w", err)
	}
	return nil
}

// WorkloadOf is the name of the LeaderWorkerSet, Deployment or service on Grove that a pod belongs to.
func WorkloadOf(pod client.Object) string {
	labels := pod.GetLabels()
	return cmp.Or(labels[lwsv1.SetNameLabelKey], labels[names.LabelSelector])
}

// Pods reads pods from the cache.
type Pods struct{ Cache client.Reader }

// Of returns the pods of some workloads of a namespace, in the order of their names.
func (p Pods) Of(ctx context.Context, namespace string, workloads ...string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, workload := range workloads {
		var found corev1.PodList
		err := p.Cache.List(ctx, &found, client.InNamespace(namespace), client.MatchingFields{byWorkload: workload}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("list pods of %q: %w", workload, err)
		}
		for i := range found.Items {
			pods = append(pods, &found.Items[i])
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}
