// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package worked_test has an operator of all namespaces take over the objects of the contract's worked examples, one orchestrator
// after the other. What the reference leaves is text that was reviewed against the contract, the files of test/golden, and not what
// this operator renders while the test runs.
//
// Where a deviation that these files name is not one of pods, it is undone. Deviations of pods stay: they replace the pods that have
// them, which is what mending a defect means.
package worked_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithLWS(), harness.WithGrove(), harness.WithVolcano(),
		harness.WithModuleCRDs("sigs.k8s.io/gateway-api-inference-extension@v1.3.0", "config/crd/bases/inference.networking.k8s.io_*.yaml"))
}

// example is a case of test/golden.
type example struct {
	*testing.T

	directory string
	graph     *unstructured.Unstructured
	children  []*unstructured.Unstructured
	// uids are those of what was made, by kind and name.
	uids map[string]types.UID
}

// read reads a case. Roles are those that the operator may bind.
func (e *example) read(name string) []byte {
	e.Helper()
	text, err := os.ReadFile(filepath.Join(e.directory, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Fatal(err)
	}
	text = bytes.ReplaceAll(text, []byte("op-planner"), []byte("dynamo-operator-planner"))
	return bytes.ReplaceAll(text, []byte("op-epp"), []byte("dynamo-operator-epp"))
}

func load(t *testing.T, name string) *example {
	t.Helper()
	e := &example{T: t, directory: filepath.Join("../../../golden", name), uids: map[string]types.UID{}}
	graphs, err := localcluster.DecodeManifest(bytes.NewReader(e.read("input.yaml")))
	if err != nil || len(graphs) != 1 {
		t.Fatalf("%d graphs: %v", len(graphs), err)
	}
	e.graph = graphs[0]
	if !strings.Contains(string(e.read("cluster.txt")), "grove") {
		e.annotate(e.graph, names.AnnotationEnableGrove, "false") // which is here for the other examples
	}
	if e.children, err = localcluster.DecodeManifest(bytes.NewReader(e.read("objects.yaml"))); err != nil || len(e.children) == 0 {
		t.Fatalf("%d children: %v", len(e.children), err)
	}
	return e
}

func (*example) annotate(u *unstructured.Unstructured, key, value string) {
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	u.SetAnnotations(annotations)
}

// unmarked are the kinds that the reference leaves without its marks. Of accounts and their bindings this goes for those that several
// graphs share.
func unmarked(u *unstructured.Unstructured) bool {
	return slices.Contains([]string{"PersistentVolumeClaim", "Secret"}, u.GetKind()) || isCommon(u)
}

// isCommon recognises the account of pickers or planners, and its binding.
func isCommon(u *unstructured.Unstructured) bool {
	return strings.HasPrefix(u.GetName(), "epp-serviceaccount") || strings.HasPrefix(u.GetName(), "planner-serviceaccount")
}

// make creates the graph and everything that the reference makes of it.
func (e *example) make() {
	e.Helper()
	e.create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": e.graph.GetNamespace()},
	}})
	e.graph.SetFinalizers([]string{names.Finalizer})
	e.create(e.graph)
	e.makeClaims()
	for _, child := range e.children {
		e.undo(child)
		e.create(child)
	}
}

// makeClaims creates the claims that a graph names and leaves to its user.
func (e *example) makeClaims() {
	e.Helper()
	claims, _, err := unstructured.NestedSlice(e.graph.Object, "spec", "pvcs")
	if err != nil {
		e.Fatal(err)
	}
	for _, c := range claims {
		claim, _ := c.(map[string]any)
		if claim["create"] == true {
			continue
		}
		e.create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"namespace": e.graph.GetNamespace(), "name": claim["name"]},
			"spec": map[string]any{"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}},
		}})
	}
}

// create creates an object as the reference does.
func (e *example) create(u *unstructured.Unstructured) {
	e.Helper()
	if err := harness.Client(e).Create(e.Context(), u, client.FieldOwner(names.FieldManagerReference)); err != nil {
		e.Fatalf("make %s %s as the reference does: %v", u.GetKind(), u.GetName(), err)
	}
	e.uids[u.GetKind()+" "+u.GetName()] = u.GetUID()
}

// undo takes from a child what is ours alone, and puts on it what the reference does.
func (e *example) undo(u *unstructured.Unstructured) {
	e.Helper()
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	delete(labels, names.LabelApplied)
	delete(annotations, names.AnnotationSurroundings)
	u.SetLabels(labels)
	u.SetAnnotations(annotations)
	owners := u.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = e.uids[owners[i].Kind+" "+owners[i].Name]
	}
	switch {
	case u.GetKind() == "Secret" || isCommon(u):
		owners = nil
	case strings.HasPrefix(u.GetName(), "dynamo-model-"): // 50: of the one that came first, who controls it
		owners = owners[:1]
		owners[0].Controller, owners[0].BlockOwnerDeletion = new(true), new(true)
	}
	u.SetOwnerReferences(owners)
	if !unmarked(u) {
		e.annotate(u, names.AnnotationReferenceHash, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")
		e.annotate(u, names.AnnotationReferenceGeneration, "1")
	}
	switch u.GetKind() {
	case "DynamoComponentDeployment":
		u.SetFinalizers([]string{names.Finalizer})
	case "LeaderWorkerSet": // 57
		unstructured.RemoveNestedField(u.Object, "spec", "rolloutStrategy")
	case "Service":
		e.undoSelector(u)
	}
}

// undoSelector has a Service select by type and Dynamo namespace, as those of the reference do (15).
func (e *example) undoSelector(u *unstructured.Unstructured) {
	e.Helper()
	selector, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector")
	if err != nil {
		e.Fatal(err)
	}
	if selector[names.LabelComponent] == "" {
		return // that of a model
	}
	delete(selector, names.LabelComponent)
	delete(selector, names.LabelGraph)
	selector[names.LabelComponentType], selector[names.LabelDynamoNamespace] = "worker", u.GetLabels()[names.LabelDynamoNamespace]
	if err := unstructured.SetNestedStringMap(u.Object, selector, "spec", "selector"); err != nil {
		e.Fatal(err)
	}
}

// live reads a child again.
func (e *example) live(u *unstructured.Unstructured) *unstructured.Unstructured {
	e.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(u.GroupVersionKind())
	if err := harness.Client(e).Get(e.Context(), client.ObjectKeyFromObject(u), now); err != nil {
		e.Fatalf("%s %s: %v", u.GetKind(), u.GetName(), err)
	}
	return now
}

// remove takes the namespace away while the operator can still let go of what is in it, for the examples that follow.
func (e *example) remove() {
	e.Helper()
	ctx, ns := context.WithoutCancel(e.Context()), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.graph.GetNamespace()}}
	if err := harness.Client(e).Delete(ctx, ns); err != nil {
		e.Fatal(err)
	}
	harness.Eventually(e, patience, "the end of the namespace", func() (bool, string) {
		err := harness.Client(e).Get(ctx, client.ObjectKeyFromObject(ns), ns)
		return apierrors.IsNotFound(err), string(ns.Status.Phase)
	})
}
