// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Kinds of others that a graph is surrounded with where their APIs are there.
var (
	poolKind    = schema.GroupVersionKind{Group: pools, Version: "v1", Kind: "InferencePool"}
	virtualKind = schema.GroupVersionKind{Group: meshes, Version: "v1beta1", Kind: "VirtualService"}
	gangKind    = schema.GroupVersionKind{Group: podGroups, Version: "v1beta1", Kind: "PodGroup"}
)

// surroundedScenarios are stories of what others do with a graph: pick its endpoints, publish it in a mesh, schedule its pods together.
var surroundedScenarios = map[string]scenario{
	"create a graph with an endpoint picker": {
		during: func(t *testing.T, ns string) { create(t, picked(ns)) },
		ended:  isPickedFrom,
		apis:   []string{pools},
	},
	"take the endpoint picker away": {
		before: func(t *testing.T, ns string) {
			create(t, picked(ns))
			isPickedFrom(t, ns)
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { delete(g.Spec.Services, "Picker") })
		},
		ended: func(t *testing.T, ns string) {
			gone(t, ns, names.Pool("chat"), of(poolKind))
			gone(t, ns, names.EPPConfig("chat"), &corev1.ConfigMap{})
			ready(t, ns)
		},
		apis: []string{pools},
	},
	"publish a frontend in a mesh": {
		before: createHidden,
		during: func(t *testing.T, ns string) { change(t, ns, publishInMesh) },
		ended:  publishedInMesh,
		apis:   []string{meshes},
		flags:  meshed,
	},
	"stop publishing a frontend in a mesh": {
		before: func(t *testing.T, ns string) {
			createHidden(t, ns)
			change(t, ns, publishInMesh)
			publishedInMesh(t, ns)
		},
		during: func(t *testing.T, ns string) { change(t, ns, hide) },
		ended: func(t *testing.T, ns string) {
			gone(t, ns, "chat-frontend", of(virtualKind))
			ready(t, ns)
		},
		apis:  []string{meshes},
		flags: meshed,
	},
	"create gangs of nodes that log in to each other": {
		during: func(t *testing.T, ns string) { create(t, ganging(ns)) },
		ended:  func(t *testing.T, ns string) { hasGangs(t, ns, 2) },
		apis:   []string{groupsOfNodes, podGroups},
		flags:  keysHere,
	},
	"from gangs of nodes to one node": {
		before: func(t *testing.T, ns string) {
			create(t, ganging(ns))
			hasGangs(t, ns, 2)
		},
		during: func(t *testing.T, ns string) {
			change(t, ns, func(g *v1alpha1.DynamoGraphDeployment) { g.Spec.Services["Decode"].Multinode = nil })
		},
		ended: func(t *testing.T, ns string) {
			hasGangs(t, ns, 0)
			ready(t, ns)
		},
		apis:  []string{groupsOfNodes, podGroups},
		flags: keysHere,
	},
}

// meshed allows publishing in a mesh, and keysHere keeps the keys of nodes in the namespace of the story.
var (
	meshed   = []string{"--istio-virtual-service-gateway=mesh/gateway"}
	keysHere = []string{"--mpi-run-ssh-secret-namespace={namespace}"}
)

func of(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// picked is a graph whose endpoints are picked.
func picked(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.TwoComponents(ns, "chat").Service("Picker", v1alpha1.ComponentTypeEPP, func(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
		s.EPPConfig = &v1alpha1.EPPConfig{Config: &apiextensionsv1.JSON{Raw: []byte(`{"plugins":[{"type":"queue"}],"schedulingProfiles":[]}`)}}
	}).Obj()
}

func isPickedFrom(t *testing.T, ns string) {
	t.Helper()
	there(t, ns, names.Pool("chat"), of(poolKind))
	there(t, ns, names.EPPConfig("chat"), &corev1.ConfigMap{})
	ready(t, ns)
}

// createHidden makes a graph that is not published, which it would be by default where there is a mesh.
func createHidden(t *testing.T, ns string) {
	t.Helper()
	g := builders.TwoComponents(ns, "chat").Obj()
	hide(g)
	create(t, g)
	ready(t, ns)
}

func hide(g *v1alpha1.DynamoGraphDeployment) {
	g.Spec.Services["Frontend"].Ingress = &v1alpha1.IngressSpec{Enabled: false}
}

func publishInMesh(g *v1alpha1.DynamoGraphDeployment) {
	g.Spec.Services["Frontend"].Ingress = &v1alpha1.IngressSpec{
		Enabled: true, Host: "chat", UseVirtualService: true, VirtualServiceGateway: new("mesh/gateway"),
	}
}

func publishedInMesh(t *testing.T, ns string) {
	t.Helper()
	there(t, ns, "chat-frontend", of(virtualKind))
	ready(t, ns)
}

// ganging is a graph with a worker of two replicas of two nodes each, which start each other by mpirun.
func ganging(ns string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(ns, "chat").Service("Frontend", v1alpha1.ComponentTypeFrontend).
		Service("Decode", v1alpha1.ComponentTypeDecode, builders.Args("python3 -m dynamo.trtllm --model "+baseModel), builders.Nodes(2), builders.Replicas(2)).Obj()
}

// hasGangs waits until there are so many groups of nodes, and a gang for each.
func hasGangs(t *testing.T, ns string, want int) {
	t.Helper()
	hasGroups(t, ns, want)
	harness.Eventually(t, patience, "every group of nodes has its gang", func() (bool, string) {
		gangs := &unstructured.UnstructuredList{}
		gangs.SetGroupVersionKind(gangKind)
		if err := harness.Client(t).List(t.Context(), gangs, client.InNamespace(ns)); err != nil {
			return false, err.Error()
		}
		return len(gangs.Items) == want, fmt.Sprint(len(gangs.Items), " gangs")
	})
}
