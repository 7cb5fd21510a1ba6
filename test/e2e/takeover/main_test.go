// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover_test has the operator find objects as the reference leaves them: with its field manager, its annotations, its
// finalizers and without any mark of ours.
package takeover_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// kinds are those of children, owners first.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&v1alpha1.DynamoComponentDeploymentList{}, &v1alpha1.DynamoGraphDeploymentScalingAdapterList{}, &appsv1.DeploymentList{}, &corev1.ServiceList{},
		&networkingv1.IngressList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.ConfigMapList{},
	}
}

// children are all objects of those kinds in a namespace that we made, or all.
func children(t *testing.T, ns string, list client.ObjectList) []client.Object {
	t.Helper()
	if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	items, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		object, ok := item.(client.Object)
		if !ok {
			t.Fatalf("a list has a %T", item)
		}
		all = append(all, object)
	}
	return all
}

// asTheReference makes every child in a namespace again as the reference leaves it, while no operator looks. change adds what the
// reference has set and we would not. It returns how many there are.
func asTheReference(t *testing.T, ns string, change func(client.Object)) int {
	t.Helper()
	uids, count := map[types.UID]types.UID{}, 0
	for _, list := range kinds() {
		for _, child := range children(t, ns, list) {
			if child.GetAnnotations()[names.AnnotationAppliedHash] == "" {
				continue
			}
			count++
			if err := harness.Client(t).Delete(t.Context(), child, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
				t.Fatal(err)
			}
			before := child.GetUID()
			unmark(child, uids)
			change(child)
			if err := harness.Client(t).Create(t.Context(), child, client.FieldOwner(names.FieldManagerReference)); err != nil {
				t.Fatalf("make %T %s as the reference does: %v", child, child.GetName(), err)
			}
			uids[before] = child.GetUID()
		}
	}
	graphs := &v1alpha1.DynamoGraphDeploymentList{}
	for _, graph := range children(t, ns, graphs) {
		graph.SetFinalizers([]string{names.Finalizer})
		if err := harness.Client(t).Update(t.Context(), graph, client.FieldOwner(names.FieldManagerReference)); err != nil {
			t.Fatal(err)
		}
	}
	return count
}

// unmark takes from a child what the server and we have put on it, and puts on it what the reference does.
func unmark(child client.Object, uids map[types.UID]types.UID) {
	child.SetUID("")
	child.SetResourceVersion("")
	child.SetManagedFields(nil)
	child.SetCreationTimestamp(metav1.Time{})
	child.SetGeneration(0)
	labels, annotations := child.GetLabels(), child.GetAnnotations()
	delete(labels, names.LabelApplied)
	delete(annotations, names.AnnotationAppliedHash)
	delete(annotations, names.AnnotationSurroundings)
	annotations[names.AnnotationReferenceHash] = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	annotations[names.AnnotationReferenceGeneration] = "1"
	child.SetAnnotations(annotations)
	owners := child.GetOwnerReferences()
	for i := range owners {
		if uid, ok := uids[owners[i].UID]; ok {
			owners[i].UID = uid
		}
	}
	child.SetOwnerReferences(owners)
	switch c := child.(type) {
	case *v1alpha1.DynamoComponentDeployment:
		c.Finalizers = []string{names.Finalizer}
	case *corev1.Service:
		if c.Spec.ClusterIP != corev1.ClusterIPNone {
			c.Spec.ClusterIP, c.Spec.ClusterIPs = "", nil
		}
	}
}
