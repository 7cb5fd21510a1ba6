// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package statusio

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/recent"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
)

// BenchmarkUnchanged finds out that a status does not have to be written, as happens in most passes.
func BenchmarkUnchanged(b *testing.B) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	w := NewWriter(nil, nil, recent.NewStore(clock), clock)
	g := builders.TwoComponents("ns", "g").Obj()
	for _, kind := range []string{v1alpha1.ConditionAvailable, v1alpha1.ConditionReady} {
		ready := metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Message: "All resources are ready"}
		g.Status.Conditions = append(g.Status.Conditions, ready)
	}
	change := Change{Before: g, After: g.DeepCopy(), Was: g.Status.Conditions, Is: g.Status.Conditions}
	b.ReportAllocs()
	for b.Loop() {
		if wait, err := w.Write(b.Context(), change); err != nil || wait != 0 {
			b.Fatalf("it would be written: %s, %v", wait, err)
		}
	}
}
