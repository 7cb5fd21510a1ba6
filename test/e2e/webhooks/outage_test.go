// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// manyEnvs makes an object large: about as large as etcd takes it.
func manyEnvs(g *v1alpha1.DynamoGraphDeployment) *v1alpha1.DynamoGraphDeployment {
	for i := range 1000 {
		g.Spec.Envs = append(g.Spec.Envs, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("x", 1000)})
	}
	return g
}

// down registers webhooks, makes graphs with finalizers while they are judged, and leaves the webhooks with nobody who
// answers. One graph is from a time without webhooks and has no spec at all, which the schema allows.
func down(t *testing.T) (*site, []*v1alpha1.DynamoGraphDeployment) {
	t.Helper()
	s := newSite(t)
	bare := &unstructured.Unstructured{}
	bare.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindDynamoGraphDeployment))
	bare.SetNamespace(s.namespace)
	bare.SetName("bare")
	bare.SetFinalizers([]string{names.Finalizer})
	if err := harness.Client(t).Create(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	s.install()
	r := s.run(nil)
	all := []*v1alpha1.DynamoGraphDeployment{good(s.namespace, "small"), manyEnvs(good(s.namespace, "large"))}
	for _, g := range all {
		g.Finalizers = []string{names.Finalizer}
		if err := harness.Client(t).Create(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	r.stop()
	return s, append(all, builders.Graph(s.namespace, "bare").Obj())
}

func TestWithoutAnOperatorNothingUnjudgedIsStored(t *testing.T) {
	t.Parallel()
	s, graphs := down(t)
	for what, err := range map[string]error{
		"a new graph":        harness.Client(t).Create(t.Context(), good(s.namespace, "new")),
		"a graph's spec":     patch(t, graphs[0], specChange),
		"a new model":        harness.Client(t).Create(t.Context(), model(s.namespace)),
		"a scaling adapter":  harness.Client(t).Create(t.Context(), adapter(s.namespace)),
		"a spec at last":     patch(t, graphs[2], specChange),
		"a large one's spec": patch(t, graphs[1], specChange),
	} {
		if !mention(err, "failed calling webhook") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestWithoutAnOperatorObjectsLiveAndDie(t *testing.T) {
	t.Parallel()
	s, graphs := down(t)
	api := harness.Client(t)
	for _, g := range graphs {
		if err := patch(t, g, `{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}}}`); err != nil {
			t.Errorf("labels of the %s graph: %v", g.Name, err)
		}
		if err := api.Status().Patch(t.Context(), g, client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"pending"}}`))); err != nil {
			t.Errorf("status of the %s graph: %v", g.Name, err)
		}
		if err := api.Delete(t.Context(), g); err != nil {
			t.Errorf("deletion of the %s graph: %v", g.Name, err)
		}
		// Even the spec may be written while an object goes.
		if err := patch(t, g, specChange); err != nil {
			t.Errorf("spec of the %s graph while it goes: %v", g.Name, err)
		}
		if err := patch(t, g, `{"metadata":{"finalizers":null}}`); err != nil {
			t.Errorf("finalizer of the %s graph: %v", g.Name, err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(g), g); !apierrors.IsNotFound(err) {
			t.Errorf("the %s graph is still there (%v)", g.Name, err)
		}
	}
	if err := api.DeleteAllOf(t.Context(), &v1alpha1.DynamoGraphDeployment{}, client.InNamespace(s.namespace)); err != nil {
		t.Error(err)
	}
}

func TestWithoutAnOperatorANamespaceGoes(t *testing.T) {
	t.Parallel()
	s, graphs := down(t)
	api := harness.Client(t)
	if err := api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	for _, g := range graphs {
		harness.Eventually(t, patience, "deletion of graph "+g.Name, func() (bool, string) {
			err := api.Get(t.Context(), client.ObjectKeyFromObject(g), g)
			return err == nil && g.DeletionTimestamp != nil, fmt.Sprint(err)
		})
		if err := patch(t, g, `{"metadata":{"finalizers":null}}`); err != nil {
			t.Errorf("finalizer of the %s graph: %v", g.Name, err)
		}
	}
	harness.Eventually(t, 2*time.Minute, "end of the namespace", func() (bool, string) {
		namespace := &corev1.Namespace{}
		err := api.Get(t.Context(), client.ObjectKey{Name: s.namespace}, namespace)
		return apierrors.IsNotFound(err), fmt.Sprint(err, namespace.Status.Conditions)
	})
}

// specChange is one that the schema allows, whatever the spec is.
const specChange = `{"spec":{"services":{"Decode":{"envs":[{"name":"A","value":"b"}]}}}}`

// patch sends a merge patch as a user does.
func patch(t *testing.T, object client.Object, content string) error {
	t.Helper()
	return harness.Client(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(content)))
}

func model(namespace string) *v1alpha1.DynamoModel {
	return &v1alpha1.DynamoModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"},
		Spec:       v1alpha1.DynamoModelSpec{ModelName: "acme/tiny-1b", BaseModelName: "acme/tiny-1b", ModelType: "base"},
	}
}

func adapter(namespace string) *v1alpha1.DynamoGraphDeploymentScalingAdapter {
	a := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "adapter"}}
	a.Spec.Replicas = 1
	a.Spec.DGDRef.Name, a.Spec.DGDRef.ServiceName = "graph", "Decode"
	return a
}

func component(namespace string) *v1alpha1.DynamoComponentDeployment {
	c := &v1alpha1.DynamoComponentDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "component"}}
	c.Spec.DynamoComponentDeploymentSharedSpec = *builders.TwoComponents(namespace, "any").Obj().Spec.Services["Decode"]
	return c
}
