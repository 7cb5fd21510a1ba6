// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// BenchmarkStatus computes the status of a graph of two services, as happens in every pass.
func BenchmarkStatus(b *testing.B) {
	g := builders.TwoComponents("ns", "g").Obj()
	g.Generation = 1
	applied := live(reported("g-frontend", 1, 1, metav1.ConditionTrue, 1), reported("g-decode", 1, 1, metav1.ConditionTrue, 1))
	g.Status = statusOf(g, applied)
	b.ReportAllocs()
	for b.Loop() {
		if next := statusOf(g, applied); next.State != v1alpha1.GraphStateSuccessful {
			b.Fatalf("the graph is %s", next.State)
		}
	}
}
