// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m, harness.WithVolcano(), harness.WithKAI()) }

func TestObjectsOfOtherProjectsCanBeWritten(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	for name, tc := range map[string]struct{ apiVersion, kind, namespace string }{
		"PodGroup in a namespace":   {"scheduling.volcano.sh/v1beta1", "PodGroup", ns},
		"Queue without a namespace": {"scheduling.run.ai/v2", "Queue", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"any": "field"}}}
			obj.SetAPIVersion(tc.apiVersion)
			obj.SetKind(tc.kind)
			obj.SetName("dynamo")
			obj.SetNamespace(tc.namespace)
			if err := harness.Client(t).Create(t.Context(), obj); err != nil {
				t.Fatalf("create: %v", err)
			}
			obj.Object["status"] = map[string]any{"phase": "Running"}
			if err := harness.Client(t).Status().Update(t.Context(), obj); err != nil {
				t.Fatalf("report: %v", err)
			}
			if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatalf("get: %v", err)
			}
			got := []any{obj.GetNamespace(), obj.Object["spec"], obj.Object["status"]}
			want := []any{tc.namespace, map[string]any{"any": "field"}, map[string]any{"phase": "Running"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what was kept (-want +got):\n%s", diff)
			}
		})
	}
}
