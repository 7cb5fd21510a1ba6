// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterwide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func aModelWithoutABaseSaysSo(t *testing.T) {
	ns := harness.Namespace(t)
	m := &v1alpha1.DynamoModel{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sql"}}
	m.Spec = v1alpha1.DynamoModelSpec{
		ModelName: "acme/sql", BaseModelName: "acme/tiny-1b", ModelType: v1alpha1.ModelTypeLoRA, Source: &v1alpha1.ModelSource{URI: "s3://bucket/sql"},
	}
	create(t, m)
	harness.Eventually(t, patience, "the model says why", func() (bool, string) {
		read(t, ns, "sql", m)
		c := conditions.Find(m.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Reason == conditions.NoEndpoints && len(m.Finalizers) == 1, "not yet"
	})
	remove(t, m)
	awaitGone(t, ns, "sql", &v1alpha1.DynamoModel{})
}

// adaptersAndClaimsComeAndGo is about what is made once: what a user takes its owner from is given it back, and goes when it is no longer wanted.
func adaptersAndClaimsComeAndGo(t *testing.T) {
	ns := harness.Namespace(t)
	g := builders.TwoComponents(ns, "chat").Obj()
	g.Spec.Services["Decode"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	name := "weights"
	g.Spec.PVCs = []v1alpha1.PVC{{
		Name: &name, Create: new(true), StorageClass: "standard", Size: resource.MustParse("1Gi"), VolumeAccessMode: corev1.ReadWriteMany,
	}}
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	adapter := &v1alpha1.DynamoGraphDeploymentScalingAdapter{}
	read(t, ns, "chat-decode", adapter)
	orphan(t, adapter)
	harness.Eventually(t, patience, "the adapter has its owner again", func() (bool, string) {
		read(t, ns, "chat-decode", adapter)
		return len(adapter.OwnerReferences) == 1, "not yet"
	})
	harness.Change(t, client.ObjectKeyFromObject(g), func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].ScalingAdapter = nil })
	awaitGone(t, ns, "chat-decode", &v1alpha1.DynamoGraphDeploymentScalingAdapter{})
}

func orphan(t *testing.T, obj client.Object) {
	t.Helper()
	before := obj.DeepCopyObject().(client.Object)
	obj.SetOwnerReferences(nil)
	if err := harness.Client(t).Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
