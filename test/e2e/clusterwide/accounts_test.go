// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterwide

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func withPlanner(ns, name string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, name).
		Service("Planner", v1alpha1.ComponentTypePlanner, builders.Args("python3 -m dynamo.planner")).Obj()
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

func remove(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Delete(t.Context(), obj); err != nil {
		t.Fatalf("delete %s: %v", obj.GetName(), err)
	}
}

func awaitGone(t *testing.T, ns, name string, obj client.Object) {
	t.Helper()
	harness.Eventually(t, patience, name+" is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, obj)
		return apierrors.IsNotFound(err), "still there"
	})
}

func plannerAccountsGoWithTheLastGraph(t *testing.T) {
	ns := harness.Namespace(t)
	one, two := withPlanner(ns, "one"), withPlanner(ns, "two")
	create(t, one)
	harness.AwaitReady(t, ns, "one")
	create(t, two)
	harness.AwaitReady(t, ns, "two")
	var account corev1.ServiceAccount
	var binding rbacv1.RoleBinding
	read(t, ns, names.PlannerAccount, &account)
	read(t, ns, names.Binding(names.PlannerAccount), &binding)
	if len(account.OwnerReferences) != 2 || len(binding.OwnerReferences) != 2 {
		t.Errorf("owners of account %v and binding %v, want both graphs", account.OwnerReferences, binding.OwnerReferences)
	}
	if binding.RoleRef.Name != "dynamo-operator-planner" {
		t.Errorf("account is bound to %q", binding.RoleRef.Name)
	}

	remove(t, one)
	awaitGone(t, ns, "one-planner", &appsv1.Deployment{})
	read(t, ns, names.PlannerAccount, &account) // two still needs it
	remove(t, two)
	awaitGone(t, ns, names.PlannerAccount, &corev1.ServiceAccount{})
	awaitGone(t, ns, names.Binding(names.PlannerAccount), &rbacv1.RoleBinding{})
}

func aStrangersAccountIsUsed(t *testing.T) {
	ns := harness.Namespace(t)
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: names.PlannerAccount, Annotations: map[string]string{"example.com/role": "mine"}}})
	g := withPlanner(ns, "chat")
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	var account corev1.ServiceAccount
	read(t, ns, names.PlannerAccount, &account)
	if len(account.OwnerReferences) != 0 || account.Labels[names.LabelApplied] != "" {
		t.Errorf("the stranger's account has owners %v and labels %v now", account.OwnerReferences, account.Labels)
	}
	remove(t, g)
	awaitGone(t, ns, "chat-planner", &appsv1.Deployment{})
	read(t, ns, names.PlannerAccount, &account)
}

func aDeletedGraphLeavesNothing(t *testing.T) {
	ns := harness.Namespace(t)
	g := builders.TwoComponents(ns, "chat").Obj()
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	remove(t, g)
	for name, obj := range map[string]client.Object{
		"chat": &v1alpha1.DynamoGraphDeployment{}, "chat-decode": &v1alpha1.DynamoComponentDeployment{},
		"chat-frontend":             &corev1.Service{},
		names.DiscoveryRole("chat"): &rbacv1.Role{}, names.DiscoveryAccount("chat"): &corev1.ServiceAccount{},
	} {
		awaitGone(t, ns, name, obj)
	}
}

func aDeletedComponentComesBack(t *testing.T) {
	ns := harness.Namespace(t)
	create(t, builders.TwoComponents(ns, "chat").Obj())
	harness.AwaitReady(t, ns, "chat")
	var before, after v1alpha1.DynamoComponentDeployment
	read(t, ns, "chat-decode", &before)
	remove(t, &before)
	harness.Eventually(t, patience, "the component and its Deployment are made again", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(&before), &after); err != nil {
			return false, err.Error()
		}
		for _, c := range after.Status.Conditions {
			if strings.Contains(c.Message, "rename") {
				t.Errorf("while the leftovers are collected, %s says: %s", c.Type, c.Message)
			}
		}
		var d appsv1.Deployment
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(&before), &d)
		return err == nil && after.UID != before.UID && metav1.IsControlledBy(&d, &after), "not yet"
	})
	harness.AwaitReady(t, ns, "chat")
}

func read(t *testing.T, ns, name string, into client.Object) {
	t.Helper()
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, into); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}
