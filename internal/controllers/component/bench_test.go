// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
)

// BenchmarkStatus computes the status of a component, as happens in every pass.
func BenchmarkStatus(b *testing.B) {
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", Generation: 5}}
	seen := Seen{Deployment: rolledOut()}
	c.Status = Status(c, apply.Result{}, seen, now)
	b.ReportAllocs()
	for b.Loop() {
		if next := Status(c, apply.Result{}, seen, now); next.ObservedGeneration != c.Generation {
			b.Fatalf("generation %d was observed", next.ObservedGeneration)
		}
	}
}
