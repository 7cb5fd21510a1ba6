// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestScalingAdapterSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoGraphDeploymentScalingAdapter", map[string]accepted{
		"zero replicas": {spec: `{replicas: 0, dgdRef: {name: g, serviceName: S}}`},
		"some replicas": {spec: `{replicas: 9, dgdRef: {name: g, serviceName: s}}`},
	})
	checkRefused(t, "DynamoGraphDeploymentScalingAdapter", map[string]refused{
		"no replicas":            {spec: `{dgdRef: {name: g, serviceName: s}}`, field: "spec.replicas"},
		"replicas below zero":    {spec: `{replicas: -1, dgdRef: {name: g, serviceName: s}}`, field: "spec.replicas"},
		"replicas as text":       {spec: `{replicas: "1", dgdRef: {name: g, serviceName: s}}`, field: "spec.replicas"},
		"no reference":           {spec: `{replicas: 1}`, field: "spec.dgdRef"},
		"no graph":               {spec: `{replicas: 1, dgdRef: {serviceName: s}}`, field: "spec.dgdRef.name"},
		"no service":             {spec: `{replicas: 1, dgdRef: {name: g}}`, field: "spec.dgdRef.serviceName"},
		"empty graph":            {spec: `{replicas: 1, dgdRef: {name: "", serviceName: s}}`, field: "spec.dgdRef.name", says: "at least 1 chars long"},
		"empty service":          {spec: `{replicas: 1, dgdRef: {name: g, serviceName: ""}}`, field: "spec.dgdRef.serviceName", says: "at least 1 chars long"},
		"graph elsewhere":        {spec: `{replicas: 1, dgdRef: {name: g, serviceName: s, namespace: nm}}`, field: "spec.dgdRef.namespace"},
		"limits are not its job": {spec: `{replicas: 1, maxReplicas: 3, dgdRef: {name: g, serviceName: s}}`, field: "spec.maxReplicas"},
	})
}

func TestScalingAdapterStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const spec = `{replicas: 1, dgdRef: {name: g, serviceName: s}}`
	checkStatusAccepted(t, "DynamoGraphDeploymentScalingAdapter", spec, map[string]accepted{
		"nothing":           {spec: `{}`},
		"everything filled": {spec: `{replicas: 2, selector: a=b, lastScaleTime: "2026-01-01T00:00:00Z", observedGeneration: 1, conditions: [{` + condition + `}]}`},
	})
	checkStatusRefused(t, "DynamoGraphDeploymentScalingAdapter", spec, merged(conditionRefusals("replicas: 1"), map[string]refused{
		"malformed time": {spec: `{lastScaleTime: now}`, field: "status.lastScaleTime"},
		"unknown member": {spec: `{ready: true}`, field: "status.ready"},
		// The schema sets no minimum; the scale subresource does.
		"replicas below zero": {spec: `{replicas: -1}`, field: ".status.replicas"},
	}))
}

// readScale asks for the scale of an adapter.
func readScale(t testing.TB, adapter client.Object) *autoscalingv1.Scale {
	t.Helper()
	scale := &autoscalingv1.Scale{}
	if err := harness.Client(t).SubResource("scale").Get(t.Context(), adapter, scale); err != nil {
		t.Fatalf("read scale: %v", err)
	}
	return scale
}

func TestScalingAdapterIsDrivenThroughItsScale(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	adapter := mustCreate(t, namespace, "DynamoGraphDeploymentScalingAdapter", `{replicas: 1, dgdRef: {name: g, serviceName: s}}`)
	if err := writeStatus(t.Context(), t, adapter, `{replicas: 1, selector: "a=b,c=d"}`); err != nil {
		t.Fatal(err)
	}

	typed := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: adapter.GetName()}}

	scale := readScale(t, typed)
	if diff := cmp.Diff(autoscalingv1.ScaleSpec{Replicas: 1}, scale.Spec); diff != "" {
		t.Errorf("wanted replicas (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(autoscalingv1.ScaleStatus{Replicas: 1, Selector: "a=b,c=d"}, scale.Status); diff != "" {
		t.Errorf("scale status (-want +got):\n%s", diff)
	}

	for _, replicas := range []int32{4, 0} {
		scale.Spec.Replicas = replicas
		if err := harness.Client(t).SubResource("scale").Update(t.Context(), typed, client.WithSubResourceBody(scale)); err != nil {
			t.Fatalf("scale to %d: %v", replicas, err)
		}
		scale = readScale(t, typed)
		if scale.Spec.Replicas != replicas {
			t.Errorf("scale says %d replicas, want %d", scale.Spec.Replicas, replicas)
		}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(typed), typed); err != nil {
			t.Fatal(err)
		}
		if typed.Spec.Replicas != replicas {
			t.Errorf("adapter says %d replicas, want %d", typed.Spec.Replicas, replicas)
		}
	}

	scale.Spec.Replicas = -1
	if err := harness.Client(t).SubResource("scale").Update(t.Context(), typed, client.WithSubResourceBody(scale)); err == nil {
		t.Error("a scale below zero was accepted")
	}
}
