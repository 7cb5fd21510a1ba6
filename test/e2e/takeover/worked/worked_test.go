// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worked_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const patience = time.Minute

// workloads are what pods are made from.
var workloads = []string{"Deployment", "LeaderWorkerSet", "PodCliqueSet", "PodGroup"}

func TestTheWorkedExamplesAreTakenOverWithoutANewPod(t *testing.T) {
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "mpi-run-ssh-secret"}, StringData: map[string]string{"private.key": "a", "private.key.pub": "b"},
	}
	if err := harness.Client(t).Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{
		"worked-component-path":  "Deployment",
		"worked-endpoint-picker": "InferencePool",
		"model-services":         "Service",
		"worked-lws-trtllm":      "LeaderWorkerSet",
		"worked-grove-sglang":    "PodCliqueSet",
		"volumes":                "PersistentVolumeClaim",
	} {
		t.Run(name, func(t *testing.T) { isTakenOver(load(t, name), kind) })
	}
}

// isTakenOver has an operator find an example, which has something of a kind.
func isTakenOver(e *example, kind string) {
	if !slices.ContainsFunc(e.children, func(u *unstructured.Unstructured) bool { return u.GetKind() == kind }) {
		e.Fatalf("the example has no %s; the test proves nothing", kind)
	}
	e.make()
	specs := map[string]any{}
	for _, child := range e.children {
		if slices.Contains(workloads, child.GetKind()) {
			specs[child.GetKind()+" "+child.GetName()] = e.live(child).Object["spec"]
		}
	}
	e.operate()
	for _, child := range e.children {
		if unmarked(child) || child.GetKind() == "DynamoGraphDeploymentScalingAdapter" {
			continue // made once, or used as it is
		}
		harness.Eventually(e, patience, child.GetKind()+" "+child.GetName()+" taken over", func() (bool, string) {
			return e.live(child).GetAnnotations()[names.AnnotationAppliedHash] != "", e.said()
		})
	}
	harness.Eventually(e, patience, "a graph that is held by nothing", func() (bool, string) {
		return len(e.live(e.graph).GetFinalizers()) == 0 && e.said() != "", e.said()
	})
	if said := e.said(); strings.Contains(said, "exists already") {
		e.Errorf("the operator took what the reference made for somebody else's: %s", said)
	}
	e.compare(specs)
}

// operate starts the operator that the example is for.
func (e *example) operate() {
	e.Helper()
	config, text := filepath.Join(e.TempDir(), "operator.yaml"), e.read("operator.yaml")
	if len(text) == 0 {
		text = []byte("apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n")
	}
	if err := os.WriteFile(config, text, 0o600); err != nil {
		e.Fatal(err)
	}
	harness.StartOperator(e, harness.ClusterWide, harness.WithFlags("--config="+config, "--mpi-run-ssh-secret-namespace=kube-system"))
	e.Cleanup(e.remove)
}

// compare checks that children are the same objects, and that pods are made from the same specs.
func (e *example) compare(specs map[string]any) {
	e.Helper()
	for _, child := range e.children {
		what, now := child.GetKind()+" "+child.GetName(), e.live(child)
		if now.GetUID() != e.uids[what] {
			e.Errorf("%s is another one", what)
		}
		before, ok := specs[what]
		if diff := cmp.Diff(before, now.Object["spec"]); ok && diff != "" {
			e.Errorf("%s: pods are made from something else (-before +after):\n%s", what, diff)
		}
	}
}

// said is what the conditions of the graph and of its components say.
func (e *example) said() string {
	e.Helper()
	var all []string
	for _, u := range append([]*unstructured.Unstructured{e.graph}, e.children...) {
		if u.GetKind() != "DynamoGraphDeployment" && u.GetKind() != "DynamoComponentDeployment" {
			continue
		}
		conditions, _, err := unstructured.NestedSlice(e.live(u).Object, "status", "conditions")
		if err != nil {
			e.Fatal(err)
		}
		for _, c := range conditions {
			condition, _ := c.(map[string]any)
			all = append(all, fmt.Sprintf("%s: %v %v %v", u.GetName(), condition["type"], condition["reason"], condition["message"]))
		}
	}
	return strings.Join(all, "\n")
}
