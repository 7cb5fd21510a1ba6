// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// examples are what runs while releases come and go: those that need no API of others.
var examples = []string{
	"quickstart/graph.yaml", "vllm/agg.yaml", "vllm/disagg.yaml", "vllm/disagg-planner.yaml", "scaling/graph.yaml", "component/standalone.yaml", "ingress/graph.yaml",
}

// runExamples makes a namespace with the examples and waits until they are ready.
func runExamples(t *testing.T) string {
	t.Helper()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	for _, name := range examples {
		file, err := os.Open(filepath.Join(story.Root, "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		objects, err := localcluster.DecodeManifest(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		for _, u := range objects {
			u.SetNamespace(ns)
			harness.Eventually(t, time.Minute, "creation of "+u.GetName(), func() (bool, string) {
				err := harness.Client(t).Create(t.Context(), u.DeepCopy())
				return err == nil, fmt.Sprint(err)
			})
			awaitReady(t, u)
		}
	}
	return ns
}

// awaitReady waits until an object of ours is ready.
func awaitReady(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	if !slices.Contains([]string{"DynamoGraphDeployment", "DynamoComponentDeployment"}, u.GetKind()) {
		return
	}
	if u.GetKind() == "DynamoGraphDeployment" {
		harness.AwaitReady(t, u.GetNamespace(), u.GetName())
		return
	}
	harness.Eventually(t, time.Minute, u.GetName()+" available", func() (bool, string) {
		got := u.DeepCopy()
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(u), got); err != nil {
			return false, err.Error()
		}
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(c any) bool {
			m, _ := c.(map[string]any)
			return m["type"] == "Available" && m["status"] == "True"
		}), fmt.Sprint(conditions)
	})
}

// state is what must not change in a namespace: which objects there are, and what pods are made from.
type state struct {
	UIDs      map[string]string
	Templates map[string]string
}

// passing are kinds that come and go by themselves.
var passing = []string{"Event", "Lease", "EndpointSlice"}

func stateOf(t *testing.T, ns string) state {
	t.Helper()
	s := state{UIDs: map[string]string{}, Templates: map[string]string{}}
	d, err := discovery.NewDiscoveryClientForConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := d.ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups {
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Kind) {
				continue
			}
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(schema.FromAPIVersionAndKind(group.GroupVersion, r.Kind+"List"))
			if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
				t.Fatalf("list %s: %v", r.Kind, err)
			}
			for _, o := range list.Items {
				s.UIDs[r.Kind+" "+o.Name] = string(o.UID)
			}
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := harness.Client(t).List(t.Context(), deployments, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		text, err := json.MarshalIndent(d.Spec.Template, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		s.Templates[d.Name] = string(text)
	}
	return s
}

// unchanged checks that everything is there that was, and no pod was replaced.
func unchanged(t *testing.T, ns string, before state) {
	t.Helper()
	now := stateOf(t, ns)
	if diff := cmp.Diff(before.Templates, now.Templates); diff != "" {
		t.Errorf("pods are made from something else (-before +now):\n%s", diff)
	}
	if diff := cmp.Diff(before.UIDs, now.UIDs); diff != "" {
		t.Errorf("objects went or came (-before +now):\n%s", diff)
	}
}
