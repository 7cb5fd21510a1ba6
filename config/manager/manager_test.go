// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/config/manager"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

func named(t *testing.T, read func() ([]*unstructured.Unstructured, error)) map[string]*unstructured.Unstructured {
	t.Helper()
	all, err := read()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*unstructured.Unstructured{}
	for _, u := range all {
		byName[u.GetKind()+" "+u.GetName()] = u
	}
	return byName
}

func typed[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, into, true); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestTheRestrictedVariantDiffersOnlyWhereItHasTo(t *testing.T) {
	t.Parallel()
	everywhere, restricted := named(t, manager.All), named(t, manager.Restricted)
	delete(everywhere, "Namespace dynamo-system")
	for name, u := range everywhere {
		other := restricted[name]
		if other == nil {
			t.Errorf("%s has no counterpart", name)
			continue
		}
		if u.GetNamespace() != "dynamo-system" || other.GetNamespace() != "" {
			t.Errorf("%s: namespaces %q and %q", name, u.GetNamespace(), other.GetNamespace())
		}
		u.SetNamespace("")
		if u.GetKind() == "ConfigMap" || u.GetKind() == "Deployment" {
			continue
		}
		if u.GetKind() == "NetworkPolicy" {
			onlyWithin(t, u, other)
		}
		if diff := cmp.Diff(u.Object, other.Object); diff != "" {
			t.Errorf("%s (-everywhere +restricted):\n%s", name, diff)
		}
	}
	if len(everywhere) != len(restricted) {
		t.Errorf("%d objects and %d", len(everywhere), len(restricted))
	}
	first := typed[appsv1.Deployment](t, everywhere["Deployment dynamo-operator"])
	second := typed[appsv1.Deployment](t, restricted["Deployment dynamo-operator"])
	pod, other := &first.Spec.Template.Spec, &second.Spec.Template.Spec
	pod.Volumes, pod.Containers[0].VolumeMounts, pod.Containers[0].Args = other.Volumes, other.Containers[0].VolumeMounts, other.Containers[0].Args
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("Deployment (-everywhere +restricted):\n%s", diff)
	}
}

// onlyWithin checks that workers are called in all namespaces by the one and in its own by the other, and makes the two equal.
func onlyWithin(t *testing.T, everywhere, restricted *unstructured.Unstructured) {
	t.Helper()
	all, one := typed[networkingv1.NetworkPolicy](t, everywhere), typed[networkingv1.NetworkPolicy](t, restricted)
	found := false
	for i, rule := range all.Spec.Egress {
		if len(rule.To) == 1 && rule.To[0].PodSelector != nil {
			found = true
			if rule.To[0].NamespaceSelector == nil || len(rule.To[0].NamespaceSelector.MatchLabels) > 0 || one.Spec.Egress[i].To[0].NamespaceSelector != nil {
				t.Errorf("workers are called by %v and %v", rule.To[0], one.Spec.Egress[i].To[0])
			}
			one.Spec.Egress[i].To[0].NamespaceSelector = rule.To[0].NamespaceSelector
		}
	}
	if !found {
		t.Error("nobody may call workers")
	}
	for _, side := range []struct {
		to   *unstructured.Unstructured
		from *networkingv1.NetworkPolicy
	}{{everywhere, all}, {restricted, one}} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(side.from)
		if err != nil {
			t.Fatal(err)
		}
		side.to.Object = object
	}
}

func TestEveryPortOfTheOperatorIsOpenToThoseWhoNeedIt(t *testing.T) {
	t.Parallel()
	objects := named(t, manager.All)
	policy := typed[networkingv1.NetworkPolicy](t, objects["NetworkPolicy dynamo-operator"])
	var in, out []string
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			in = append(in, p.Port.String())
		}
	}
	for _, rule := range policy.Spec.Egress {
		for _, p := range rule.Ports {
			out = append(out, p.Port.String())
		}
	}
	container := typed[appsv1.Deployment](t, objects["Deployment "+names.OperatorName]).Spec.Template.Spec.Containers[0]
	for _, p := range container.Ports {
		// Kubelets are on the node, whom policies let through.
		if p.Name != "health" && !slices.Contains(in, p.Name) {
			t.Errorf("nobody can reach port %s", p.Name)
		}
	}
	// Names, the API server by its Service and by itself, etcd, workers, a collector of traces.
	if diff := cmp.Diff([]string{"53", "53", "443", "6443", "2379", strconv.Itoa(names.PortSystemNumber), "4318"}, out); diff != "" {
		t.Errorf("where it can go (-want +got):\n%s", diff)
	}
}
