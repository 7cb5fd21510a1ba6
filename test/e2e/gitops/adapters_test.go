// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// wanted is the number of replicas that an object asks for.
func wanted(o *unstructured.Unstructured) string {
	n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return fmt.Sprint(n, found)
}

// awaitReplicas waits until the graph and its adapter agree on a number, and it is there.
func awaitReplicas(t *testing.T, ns string, want int32) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("%d replicas", want), func() (bool, string) {
		var a v1alpha1.DynamoGraphDeploymentScalingAdapter
		read(t, ns, "chat-decode", &a)
		inGraph := graph(t, ns).Spec.Services["Decode"].Replicas
		return inGraph != nil && *inGraph == want && a.Spec.Replicas == want && a.Status.Replicas == want && a.Status.ObservedGeneration == a.Generation,
			fmt.Sprintf("wanted by graph and adapter: %v, %d; there: %d", inGraph, a.Spec.Replicas, a.Status.Replicas)
	})
}

// atThree brings a graph whose worker an autoscaler has taken to three replicas, and watches its Deployment from then on.
func atThree(t *testing.T, way []string, text string) (string, *history) {
	t.Helper()
	ns := harness.Namespace(t)
	harness.StartOperator(t, ns)
	bring(t, ns, way, text)
	harness.AwaitReady(t, ns, "chat")
	kubectl(t, ns, "scale", "dgdsa/chat-decode", "--replicas=3")
	awaitReplicas(t, ns, 3)
	harness.AwaitReady(t, ns, "chat")
	return ns, record(t, ns, "chat-decode", appsv1.SchemeGroupVersion.WithKind("Deployment"))
}

// neverLeftThree fails if the worker's Deployment was ever asked for another number. A change of something else shows that
// the operator has looked at everything that was brought.
func neverLeftThree(t *testing.T, ns string, h *history, way []string, text string) {
	t.Helper()
	bring(t, ns, way, strings.Replace(text, first, second, 2))
	harness.AwaitReady(t, ns, "chat")
	awaitReplicas(t, ns, 3)
	harness.AwaitReady(t, ns, "chat")
	if diff := cmp.Diff([]string{"3 true"}, h.end(t, wanted)); diff != "" {
		t.Errorf("replicas of the Deployment (-want +got):\n%s", diff)
	}
}

func TestAManifestWithoutReplicasDoesNotResetThoseOfAnAdapter(t *testing.T) {
	t.Parallel()
	for name, way := range managers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := manifest(first, scaled)
			ns, seen := atThree(t, way, text)
			was := graph(t, ns).Generation
			for range 2 {
				bring(t, ns, way, text)
				awaitReplicas(t, ns, 3)
			}
			if is := graph(t, ns).Generation; way[0] != "replace" && is != was { // who replaces a graph takes the number out
				t.Errorf("bringing the same again moved the generation from %d to %d", was, is)
			}
			neverLeftThree(t, ns, seen, way, text)
		})
	}
}

func TestReplicasThatLeaveAManifestStayWithTheAdapter(t *testing.T) {
	t.Parallel()
	for name, way := range managers() {
		if way[0] == "patch" {
			continue // a merge patch takes away only what it names
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := harness.Namespace(t)
			harness.StartOperator(t, ns)
			bring(t, ns, way, manifest(first, replicas, scaled))
			harness.AwaitReady(t, ns, "chat")
			awaitReplicas(t, ns, 3)
			seen := record(t, ns, "chat-decode", appsv1.SchemeGroupVersion.WithKind("Deployment"))
			bring(t, ns, way, manifest(first, scaled))
			awaitReplicas(t, ns, 3)
			neverLeftThree(t, ns, seen, way, manifest(first, scaled))
		})
	}
}

func TestTheNumberOfAnAdapterWinsOverAManifest(t *testing.T) {
	t.Parallel()
	other := "      replicas: 1\n"
	for name, way := range managers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns, seen := atThree(t, way, manifest(first, scaled))
			if name == "server-side apply" {
				_, problem, err := harness.Kubectl(t, append([]string{"--namespace", ns}, append(way, file(t, manifest(first, other, scaled)))...)...)
				const conflict = `Apply failed with 1 conflict: conflict with "dynamo-scaling" using nvidia.com/v1alpha1: .spec.services.Decode.replicas`
				if err == nil || !strings.Contains(problem, conflict) {
					t.Errorf("a manifest with another number is answered with %v: %s", err, problem)
				}
				way = append(way[:len(way)-1:len(way)-1], "--force-conflicts", "-f")
			}
			for range 2 {
				bring(t, ns, way, manifest(first, other, scaled))
				awaitReplicas(t, ns, 3)
			}
			neverLeftThree(t, ns, seen, way, manifest(first, other, scaled))
		})
	}
}
