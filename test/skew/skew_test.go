// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/preflight"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const limit = time.Minute

// start runs an operator as a process; an empty binary means that of this tree.
func start(t *testing.T, namespace, binary string) *harness.Process {
	t.Helper()
	return harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + namespace, Namespace: namespace, Binary: binary})
}

// live takes a graph through what graphs go through: it is made, changed and scaled.
func live(t *testing.T, namespace, name string) {
	t.Helper()
	graph := builders.TwoComponents(namespace, name).Obj()
	graph.Spec.Services["Decode"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	if err := harness.Client(t).Create(t.Context(), graph); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, namespace, name)
	key := client.ObjectKey{Namespace: namespace, Name: name}
	harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Frontend"].ExtraPodSpec.MainContainer.Image = "registry.example.com/engine:2"
	})
	awaitDeployment(t, namespace, name+"-frontend", func(d appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == "registry.example.com/engine:2"
	})
	harness.Scale(t, namespace, name+"-decode", 3)
	awaitDeployment(t, namespace, name+"-decode", func(d appsv1.Deployment) bool { return d.Spec.Replicas != nil && *d.Spec.Replicas == 3 })
	harness.AwaitReady(t, namespace, name)
}

func awaitDeployment(t *testing.T, namespace, name string, good func(appsv1.Deployment) bool) {
	t.Helper()
	harness.Eventually(t, limit, "Deployment "+name, func() (bool, string) {
		var d appsv1.Deployment
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
			return false, err.Error()
		}
		return good(d), fmt.Sprintf("%v replicas, %s", d.Spec.Replicas, d.Spec.Template.Spec.Containers[0].Image)
	})
}

// leave deletes a graph and waits until it is gone.
func leave(t *testing.T, namespace, name string) {
	t.Helper()
	graph := &v1alpha1.DynamoGraphDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := harness.Client(t).Delete(t.Context(), graph); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, limit, "graph "+name+" is gone", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(graph), graph)
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
}

// templates are the pod templates of a namespace: while these stay, no pod is replaced.
func templates(t *testing.T, namespace string) map[string]corev1.PodTemplateSpec {
	t.Helper()
	var all appsv1.DeploymentList
	if err := harness.Client(t).List(t.Context(), &all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[string]corev1.PodTemplateSpec{}
	for _, d := range all.Items {
		found[d.Name] = d.Spec.Template
	}
	return found
}

func TestGraphsLiveOnThisServer(t *testing.T) {
	namespace := harness.Namespace(t)
	api, err := discovery.NewDiscoveryClientForConfig(harness.RESTConfig(t, localcluster.UserAdmin))
	if err != nil {
		t.Fatal(err)
	}
	server, err := api.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor := preflight.NewestMinor
	if os.Getenv("DYNAMO_TEST_OLD_API") != "" {
		minor = preflight.TestedMinor
	}
	if !strings.HasPrefix(server.GitVersion, "v"+minor+".") {
		t.Fatalf("the server is %s, want %s", server.GitVersion, minor)
	}
	t.Logf("API server %s", server.GitVersion)
	harness.SimulateDeployments(t, namespace)
	start(t, namespace, "")
	live(t, namespace, "chat")
	leave(t, namespace, "chat")

	if err := harness.Client(t).Create(t.Context(), builders.Graph(namespace, "empty").Obj()); !apierrors.IsInvalid(err) {
		t.Errorf("a graph that breaks a rule of its definition: %v", err)
	}
}

// The definitions belong to the whole cluster, so these tests follow each other.
func TestANewOperatorWorksOnOldDefinitions(t *testing.T) {
	namespace := harness.Namespace(t)
	install(t, oldDefinitions(t))
	harness.SimulateDeployments(t, namespace)
	start(t, namespace, "")
	live(t, namespace, "chat")
	before := templates(t, namespace)

	install(t, newDefinitions(t))
	live(t, namespace, "later")
	harness.AwaitReady(t, namespace, "chat")
	compare(t, "new definitions", before, templates(t, namespace))
	leave(t, namespace, "chat")
	leave(t, namespace, "later")
}

func TestAnOldOperatorWorksOnNewDefinitions(t *testing.T) {
	namespace := harness.Namespace(t)
	install(t, newDefinitions(t))
	harness.SimulateDeployments(t, namespace)
	old := start(t, namespace, oldOperator(t))
	live(t, namespace, "chat")
	before := templates(t, namespace)

	// Forwards, and back again: nobody's pods are replaced by either.
	old.Stop()
	current := start(t, namespace, "")
	live(t, namespace, "later")
	harness.AwaitReady(t, namespace, "chat")
	compare(t, "the new operator", before, templates(t, namespace))
	before = templates(t, namespace)

	current.Stop()
	start(t, namespace, oldOperator(t))
	live(t, namespace, "last")
	harness.AwaitReady(t, namespace, "chat")
	compare(t, "the old operator", before, templates(t, namespace))
	for _, name := range []string{"chat", "later", "last"} {
		leave(t, namespace, name)
	}
}

// compare tells whether somebody replaced pods.
func compare(t *testing.T, who string, before, after map[string]corev1.PodTemplateSpec) {
	t.Helper()
	for name, template := range before {
		if diff := cmp.Diff(template, after[name]); diff != "" {
			t.Errorf("%s replaced the pods of %s (-before +after):\n%s", who, name, diff)
		}
	}
}
