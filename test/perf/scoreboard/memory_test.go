// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scoreboard_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/test/perf"
)

// foreignObjects is how much more memory an operator has in a cluster with much that is not its business.
func foreignObjects(t *testing.T, binary string, n int) values {
	var alone, among memory
	ok := t.Run("alone", func(t *testing.T) { alone = started(t, perf.NewBed(t, binary), n) }) &&
		t.Run("among others", func(t *testing.T) {
			b := perf.NewBed(t, binary)
			populate(b)
			among = started(t, b, n)
		})
	if !ok {
		t.FailNow()
	}
	return values{
		perf.ValueForeign: float64(*foreign), perf.ValueSecrets: float64(*secrets),
		"alonePeakMiB": alone.peak, perf.ValuePeak: among.peak, perf.ValueChange: 100 * (among.peak/alone.peak - 1),
		"aloneResidentMiB": alone.resident, perf.ValueResident: among.resident,
	}
}

// memory is that of an operator, in MiB.
type memory struct{ peak, resident float64 }

// started fills a bed with graphs and starts operators there, one after the other. The median of what each had counts: when
// the garbage collector runs is a matter of chance.
func started(t *testing.T, b *perf.Bed, n int) memory {
	t.Helper()
	s := perf.NewStageOn(b)
	s.Fill(n, s.Graph)
	var peaks, residents []float64
	for range *repeats {
		s.Restart()
		perf.NewTrail(t).Settle(perf.OperatorUser, perf.Limit(n))
		u := s.Usage(s.Operator.Name)
		peaks, residents = append(peaks, perf.MiB(u.Peak)), append(residents, perf.MiB(u.Resident))
	}
	t.Logf("peaks %.1f, resident %.1f MiB", peaks, residents)
	return memory{peak: perf.Median(peaks), resident: perf.Median(residents)}
}

// populate makes pods that no node runs, and Secrets of a type that means nothing to the operator.
func populate(b *perf.Bed) {
	api, namespaces := b.Client(perf.GeneratorUser), b.Namespaces()
	b.Each(*foreign, "create pods of others", func(ctx context.Context, i int) error {
		return api.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespaces[i%len(namespaces)], Name: fmt.Sprintf("foreign-%05d", i), Labels: map[string]string{"app": "foreign"},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/foreign:1", Args: []string{"serve", "--port=8080"},
			}}},
		})
	})
	megabyte, types := bytes.Repeat([]byte("x"), 1_000_000), []corev1.SecretType{corev1.SecretTypeOpaque, "helm.sh/release.v1"}
	b.Each(*secrets, "create Secrets of others", func(ctx context.Context, i int) error {
		return api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[i%len(namespaces)], Name: fmt.Sprintf("foreign-%05d", i)},
			Type:       types[i%len(types)], Data: map[string][]byte{"data": megabyte},
		})
	})
}
