// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/manager"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// shippedObjects are the shipped manifests, moved to a namespace.
func shippedObjects(t *testing.T, ns string, read func() ([]*unstructured.Unstructured, error)) map[string]*unstructured.Unstructured {
	t.Helper()
	all, err := read()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*unstructured.Unstructured{}
	for _, u := range all {
		if u.GetKind() == "Namespace" {
			continue
		}
		u.SetNamespace(ns)
		byKind[u.GetKind()+" "+u.GetName()] = u
	}
	return byKind
}

func TestTheOperatorsPodIsAllowedWhereOnlyRestrictedPodsAre(t *testing.T) {
	t.Parallel()
	for name, read := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			podAllowed(t, read)
		})
	}
}

// variants are the two ways in which the operator is shipped.
var variants = map[string]func() ([]*unstructured.Unstructured, error){"all namespaces": manager.All, "one namespace": manager.Restricted}

func podAllowed(t *testing.T, read func() ([]*unstructured.Unstructured, error)) {
	t.Helper()
	ns := harness.Namespace(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))
	if err := harness.Client(t).Patch(t.Context(), namespace, patch); err != nil {
		t.Fatal(err)
	}
	shipped := shippedObjects(t, ns, read)
	for name, u := range shipped {
		if err := harness.Client(t).Create(t.Context(), u); err != nil {
			t.Errorf("create %s: %v", name, err)
		}
	}
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(shipped["Deployment dynamo-operator"].Object, &d); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "operator"}, Spec: d.Spec.Template.Spec}
	if err := harness.Client(t).Create(t.Context(), pod.DeepCopy()); err != nil {
		t.Errorf("the pod is refused: %v", err)
	}
	// The same with a right too many shows that somebody looks.
	pod.Name, pod.Spec.Containers[0].SecurityContext.Capabilities = "greedy", nil
	if err := harness.Client(t).Create(t.Context(), pod); err == nil {
		t.Error("a pod that keeps its capabilities is allowed; the test proves nothing")
	}
}

func TestTheShippedConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	for name, read := range variants {
		text, _, err := unstructured.NestedString(shippedObjects(t, "any", read)["ConfigMap dynamo-operator"].Object, "data", "operator.yaml")
		if err != nil {
			t.Fatal(err)
		}
		c, errs, err := config.Decode([]byte(text))
		if err != nil || len(errs) > 0 {
			t.Fatalf("%s: it does not fit: %v %v", name, err, errs)
		}
		if name == "one namespace" {
			c.RestrictedNamespace = "team-a" // by a flag
		}
		if errs := config.Judge(c); len(errs) > 0 {
			t.Errorf("%s: it is refused: %v", name, errs)
		}
	}
}
