// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"slices"
	"testing"

	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// simulate plays those who act on what the operator makes. Nobody acts on LeaderWorkerSets: what becomes of them is told with their
// real controller elsewhere.
func (s scenario) simulate(t *testing.T, ns string) {
	t.Helper()
	if s.stuck {
		return
	}
	harness.SimulateDeployments(t, ns)
	if slices.Contains(s.apis, gangs) {
		harness.SimulateGrove(t, ns)
	}
}

// orchestratedScenarios are stories of what lies around Deployments, and of what stands in their place.
var orchestratedScenarios = map[string]scenario{
	"publish a frontend and give it a budget": {
		before: createReady,
		during: func(t *testing.T, ns string) { change(t, ns, publish) },
		ended:  published,
	},
	"stop publishing a frontend and drop its budget": {
		before: func(t *testing.T, ns string) {
			createReady(t, ns)
			change(t, ns, publish)
			published(t, ns)
		},
		during: func(t *testing.T, ns string) { change(t, ns, conceal) },
		ended: func(t *testing.T, ns string) {
			gone(t, ns, "chat-frontend", &networkingv1.Ingress{})
			gone(t, ns, "chat-frontend", &policyv1.PodDisruptionBudget{})
			ready(t, ns)
		},
	},
	"create a rich graph that is published": {
		during: func(t *testing.T, ns string) {
			g := rich(ns)
			publish(g)
			create(t, g)
		},
		ended: func(t *testing.T, ns string) {
			published(t, ns)
			scaled(t, ns, 1)
		},
	},
	"a service leaves with its adapter": {
		before: createRich,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, "Decode") })
		},
		ended: func(t *testing.T, ns string) {
			gone(t, ns, "chat-decode", &v1alpha1.DynamoGraphDeploymentScalingAdapter{})
			gone(t, ns, "chat-decode", &appsv1.Deployment{})
			ready(t, ns)
		},
	},
	"delete a graph before it is ready": {
		before: func(t *testing.T, ns string) {
			create(t, rich(ns))
			there(t, ns, "chat-decode", &appsv1.Deployment{})
			there(t, ns, "chat-frontend", &appsv1.Deployment{})
		},
		during: func(t *testing.T, ns string) { remove(t, rich(ns), metav1.DeletePropagationBackground) },
		ended:  graphGone,
		etcd:   true,
		stuck:  true,
	},
	"bring a service back from nothing": {
		before: func(t *testing.T, ns string) {
			create(t, builders.TwoComponents(ns, "chat").Change("Decode", builders.Replicas(0)).Obj())
			ready(t, ns)
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(2)) })
		},
		ended: ready,
	},
	"correct a RoleBinding to another role": {
		before:  createReady,
		during:  bindElsewhere,
		ended:   boundAgain,
		upgrade: []string{}, // the binding is replaced while no operator is there
	},
	"create a graph of groups of nodes": {
		during: func(t *testing.T, ns string) { create(t, grouped(ns)) },
		ended:  func(t *testing.T, ns string) { hasGroups(t, ns, 2) },
		apis:   []string{groupsOfNodes},
	},
	"more groups of nodes": {
		before: createGrouped,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Replicas = new(int32(3)) })
		},
		ended: func(t *testing.T, ns string) { hasGroups(t, ns, 3) },
		apis:  []string{groupsOfNodes},
	},
	"from groups of nodes to one node": {
		before: createGrouped,
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Multinode = nil })
		},
		ended: func(t *testing.T, ns string) {
			hasGroups(t, ns, 0)
			ready(t, ns)
		},
		apis: []string{groupsOfNodes},
	},
	"create a graph on Grove": {
		during: func(t *testing.T, ns string) { create(t, ganged(ns)) },
		ended:  ready,
		apis:   []string{gangs},
	},
	"change an image on Grove": {
		before: createGanged,
		during: func(t *testing.T, ns string) { change(t, ns, edits["image"]) },
		ended:  ready,
		apis:   []string{gangs},
	},
	"scale on Grove": {
		before: createGanged,
		during: func(t *testing.T, ns string) { change(t, ns, edits["replicas"]) },
		ended:  ready,
		apis:   []string{gangs},
	},
	"delete a graph on Grove and make it again": {
		before: createGanged,
		during: func(t *testing.T, ns string) {
			remove(t, ganged(ns), metav1.DeletePropagationBackground)
			graphGone(t, ns)
			gone(t, ns, "chat", &grovev1alpha1.PodCliqueSet{})
			create(t, ganged(ns))
		},
		ended: ready,
		apis:  []string{gangs},
	},
}

func publish(g *v1alpha1.DynamoGraphDeployment) {
	front := g.Spec.Services["Frontend"]
	front.Ingress = &v1alpha1.IngressSpec{Enabled: true, Host: "chat", IngressControllerClassName: new("nginx")}
	front.Annotations = map[string]string{names.AnnotationDisruptionBudget: "1"}
}

func conceal(g *v1alpha1.DynamoGraphDeployment) {
	g.Spec.Services["Frontend"].Ingress, g.Spec.Services["Frontend"].Annotations = nil, nil
}

func published(t *testing.T, ns string) {
	t.Helper()
	there(t, ns, "chat-frontend", &networkingv1.Ingress{})
	there(t, ns, "chat-frontend", &policyv1.PodDisruptionBudget{})
	ready(t, ns)
}

// bindElsewhere puts a binding to another role in the place of a graph's own, with all its marks.
func bindElsewhere(t *testing.T, ns string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.DiscoveryBinding("chat")}, binding); err != nil {
		t.Fatal(err)
	}
	remove(t, binding.DeepCopy(), metav1.DeletePropagationBackground)
	binding.RoleRef.Name, binding.ResourceVersion, binding.UID = "somebody-else", "", ""
	if err := harness.Client(t).Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

func boundAgain(t *testing.T, ns string) {
	t.Helper()
	harness.Eventually(t, patience, "the binding is to the graph's role", func() (bool, string) {
		binding := &rbacv1.RoleBinding{}
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: names.DiscoveryBinding("chat")}, binding)
		return err == nil && binding.RoleRef.Name == names.DiscoveryRole("chat"), fmt.Sprint(err, binding.RoleRef)
	})
	ready(t, ns)
}

// grouped is a graph with a worker of two replicas of two nodes each.
func grouped(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(ns, "chat").Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.sglang --tp 2"), builders.Nodes(2), builders.Replicas(2)).Obj()
}

func createGrouped(t *testing.T, ns string) {
	t.Helper()
	create(t, grouped(ns))
	hasGroups(t, ns, 2)
}

// hasGroups waits until there are so many groups and the graph was judged with them.
func hasGroups(t *testing.T, ns string, want int) {
	t.Helper()
	harness.Eventually(t, patience, "the groups are as many as wanted", func() (bool, string) {
		var sets lwsv1.LeaderWorkerSetList
		if err := harness.Client(t).List(t.Context(), &sets, client.InNamespace(ns)); err != nil {
			return false, err.Error()
		}
		g := &v1alpha1.DynamoGraphDeployment{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "chat"}, g); err != nil {
			return false, err.Error()
		}
		return len(sets.Items) == want && g.Status.ObservedGeneration == g.Generation, fmt.Sprint(len(sets.Items), " groups")
	})
}

// ganged is a graph that becomes a PodCliqueSet.
func ganged(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, "chat").Obj()
}

func createGanged(t *testing.T, ns string) {
	t.Helper()
	create(t, ganged(ns))
	ready(t, ns)
}

func there(t *testing.T, ns, name string, object client.Object) {
	t.Helper()
	harness.Eventually(t, patience, name+" is there", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, object)
		return err == nil, fmt.Sprint(err)
	})
}
