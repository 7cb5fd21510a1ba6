// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// podsPerNode leaves room on nodes, so that nothing waits for a place.
const podsPerNode = 80

// pods is the way of n graphs to Ready with the controllers and the scheduler of Kubernetes and nodes that kwok plays, and
// where the time goes on it.
func pods(t *testing.T, binary string, n int) values {
	total := n * 2 * *replicas
	s := perf.NewStage(t, binary, harness.WithNodes(total/podsPerNode+2, 8))
	s.StopSimulator() // there are real controllers
	meter := s.Meter(s.Operator.Name, localcluster.ControllerManager, localcluster.Scheduler, localcluster.Kwok)
	begin := time.Now()
	w := s.Fill(n, func(i int) *v1alpha1.DynamoGraphDeployment {
		key := s.Key(i)
		return builders.TwoComponents(key.Namespace, key.Name).
			Change("Frontend", builders.Replicas(int32(*replicas))).Change("Decode", builders.Replicas(int32(*replicas))).Obj()
	})
	found := readyPods(t)
	if found != total {
		t.Fatalf("%d pods are Ready, want %d", found, total)
	}
	v := values{perf.ValuePods: float64(found), "podsPerSecond": float64(total) / w.Span.Seconds(), "graphP50Seconds": w.Each.P50}
	v.work(w, s, n)
	for _, step := range perf.Timeline(w.Records, begin) {
		v[step.Name], v[step.Name+"P50Seconds"], v[step.Name+"LastSeconds"] = float64(step.Count), step.P50, step.Max
	}
	for process, used := range meter.CPU() {
		if process == s.Operator.Name {
			process = "operator"
		}
		v["cpuSeconds "+process] = used.Seconds()
	}
	return v
}

// readyPods counts the pods of components that are Ready.
func readyPods(t *testing.T) int {
	t.Helper()
	list := &corev1.PodList{}
	if err := harness.Client(t).List(t.Context(), list, client.HasLabels{names.LabelComponent}); err != nil {
		t.Fatalf("count pods: %v", err)
	}
	ready := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return ready
}
