// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// updateStorm gives n graphs another image at once.
func updateStorm(t *testing.T, binary string, n int) values {
	s := converged(t, binary, n)
	w := s.Change(n, 2, perf.Image("registry.example.com/dynamo:2", "Frontend", "Decode"))
	v := values{"graphP50Seconds": w.Each.P50, "graphP99Seconds": w.Each.P99}
	v.work(w, s, n)
	return v
}

// deleteStorm deletes n graphs at once. Whatever belongs to them is collected by the garbage collector of Kubernetes, which is
// the only one of its controllers that runs.
func deleteStorm(t *testing.T, binary string, n int) values {
	s := perf.NewStage(t, binary, harness.WithControllerManagerArgs("--controllers=garbage-collector-controller"))
	s.Fill(n, s.Graph)
	trail, meter := perf.NewTrail(t), s.Meter(s.Operator.Name)
	begin := s.DeleteGraphs(n)
	harness.Eventually(t, perf.Limit(n), "everything collected", func() (bool, string) {
		for _, kind := range []schema.GroupVersionKind{
			appsv1.SchemeGroupVersion.WithKind("Deployment"), corev1.SchemeGroupVersion.WithKind("Service"),
			v1alpha1.GroupVersion.WithKind("DynamoComponentDeployment"), v1alpha1.GroupVersion.WithKind("DynamoGraphDeployment"),
		} {
			if left := remaining(t, kind); left > 0 {
				return false, fmt.Sprintf("%d of %s are left", left, kind.Kind)
			}
		}
		return true, ""
	})
	gone := time.Since(begin)
	got := perf.Fold(trail.Settle(perf.OperatorUser, perf.Limit(n)), perf.OperatorUser)
	return values{
		perf.ValueSeconds: gone.Seconds(), perf.ValueAllWrites: float64(got.Writes()), "reads": float64(got.Reads),
		perf.ValueCPU: 1000 * meter.CPU()[s.Operator.Name].Seconds() / float64(n),
	}
}

// remaining counts objects of a kind without reading them: of graphs all, of others those that the operator made.
func remaining(t *testing.T, kind schema.GroupVersionKind) int64 {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	opts := []client.ListOption{client.Limit(1)}
	if kind.Kind == "Service" {
		opts = append(opts, client.MatchingLabels{names.LabelApplied: names.OperatorName}) // Kubernetes has one of its own
	}
	if err := harness.Client(t).List(t.Context(), list, opts...); err != nil {
		t.Fatalf("count %s: %v", kind.Kind, err)
	}
	left := int64(len(list.Items))
	if list.RemainingItemCount != nil {
		left += *list.RemainingItemCount
	}
	return left
}
