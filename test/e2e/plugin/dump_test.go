// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// The second cluster takes the place of the first for a while, so no other test runs beside this one.
func TestADumpRestoresTheSameGraphsInAnEmptyCluster(t *testing.T) {
	namespace := harness.Namespace(t)
	operator := harness.StartOperator(t, namespace)
	harness.SimulateDeployments(t, namespace)
	graph := builders.TwoComponents(namespace, "chat").Obj()
	graph.Labels = map[string]string{"team": "a"}
	graph.Spec.Services["Decode"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	model := &v1alpha1.DynamoModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tiny"},
		Spec:       v1alpha1.DynamoModelSpec{ModelName: "acme/tiny-1b", BaseModelName: "acme/tiny-1b", ModelType: "base"},
	}
	for _, o := range []client.Object{graph, model} {
		if err := harness.Client(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	before := harness.AwaitReady(t, namespace, "chat")
	children := names(t, namespace)
	operator.Stop()

	code, text, stderr := plugin(t, admin, "dump", "-n", namespace)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, unwanted := range []string{"DynamoComponentDeployment\n", "ScalingAdapter\n", "status:", "uid:", "managedFields", "finalizers", "ownerReferences", "resourceVersion"} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in the dump:\n%s", unwanted, text)
		}
	}
	if _, again, _ := plugin(t, admin, "dump", "-n", namespace); again != text {
		t.Error("two dumps differ")
	}

	harness.Fresh(t)
	if err := harness.Client(t).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	restore(t, text)
	harness.StartOperator(t, namespace)
	harness.SimulateDeployments(t, namespace)
	after := harness.AwaitReady(t, namespace, "chat")
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the graph changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(before.Labels, after.Labels); diff != "" {
		t.Errorf("its labels changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(children, names(t, namespace)); diff != "" {
		t.Errorf("other children were made (-before +after):\n%s", diff)
	}
	if _, again, _ := plugin(t, admin, "dump", "-n", namespace); again != text {
		t.Errorf("the dump of what was restored differs (-before +after):\n%s", cmp.Diff(text, again))
	}
}

// everyKind is one object of each, as somebody would write it; none of them has an owner. Requests and checkpoints are among them, which
// no graph brings back.
const everyKind = `
- {kind: DynamoModel, spec: {modelName: m, baseModelName: b}}
- {kind: DynamoComponentDeployment, spec: {backendFramework: vllm, componentType: worker, replicas: 2}}
- {kind: DynamoGraphDeployment, spec: {backendFramework: vllm, services: {Frontend: {componentType: frontend, replicas: 1}}}}
- {kind: DynamoCheckpoint, spec: {identity: {model: m, backendFramework: vllm}, job: {podTemplateSpec: {spec: {containers: [{name: main, image: i}]}}}}}
- {kind: DynamoGraphDeploymentRequest, spec: {model: m, backend: vllm, profilingConfig: {profilerImage: i, config: {sla: {ttft: 5}}}}}
- {kind: DynamoGraphDeploymentScalingAdapter, spec: {replicas: 3, dgdRef: {name: g, serviceName: s}}}
- {kind: DynamoWorkerMetadata, spec: {data: {a: 1}}}
`

// written are the objects of every kind for a namespace, each called like the namespace.
func written(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	var contents []map[string]any
	if err := yaml.Unmarshal([]byte(everyKind), &contents); err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	kinds := map[string]bool{}
	for _, content := range contents {
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion(v1alpha1.GroupVersion.String())
		u.SetNamespace(namespace)
		u.SetName("one-of-" + namespace)
		u.SetLabels(map[string]string{"team": namespace})
		all, kinds[u.GetKind()] = append(all, u), true
	}
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		if !kinds[d.Spec.Names.Kind] {
			t.Errorf("there is no %s among the objects; the test proves nothing about it", d.Spec.Names.Kind)
		}
	}
	return all
}

// made are objects that somebody or something else has made of others: by a pod, by a component, and by a controller of others.
func made(t *testing.T, namespace string, parent *unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	owned := func(kind, name, spec string, owner metav1.OwnerReference) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(spec), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetAPIVersion(v1alpha1.GroupVersion.String())
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		owner.Controller = new(true)
		u.SetOwnerReferences([]metav1.OwnerReference{owner})
		return u
	}
	return []*unstructured.Unstructured{
		owned("DynamoWorkerMetadata", "of-a-pod", "spec: {data: {}}", metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "p"}),
		owned("DynamoComponentDeployment", "of-a-graph", "spec: {backendFramework: vllm}",
			metav1.OwnerReference{APIVersion: parent.GetAPIVersion(), Kind: parent.GetKind(), Name: parent.GetName(), UID: parent.GetUID()}),
		owned("DynamoModel", "of-others", "spec: {modelName: m, baseModelName: b}",
			metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Platform", Name: "acme", UID: "q"}),
	}
}

// All namespaces at once, without an operator: what is restored is what was written, of every kind.
func TestADumpOfTheWholeClusterHasEveryKind(t *testing.T) {
	harness.Fresh(t)
	namespaces := []string{"team-a", "team-b"}
	var parent *unstructured.Unstructured
	for _, namespace := range namespaces {
		makeNamespace(t, namespace)
		all := written(t, namespace)
		store(t, all)
		parent = all[slices.IndexFunc(all, func(u *unstructured.Unstructured) bool { return u.GetKind() == "DynamoGraphDeployment" })]
	}
	store(t, made(t, namespaces[1], parent))
	code, text, stderr := plugin(t, admin, "dump")
	if want := "left out: DynamoModel team-b/of-others, which Platform acme made and has to make again\n"; code != 0 || stderr != want {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	list := &unstructured.UnstructuredList{}
	if err := yaml.Unmarshal([]byte(text), list); err != nil {
		t.Fatal(err)
	}
	if got, want := len(list.Items), 2*len(written(t, "team-a")); got != want {
		t.Errorf("%d objects in the dump, want %d:\n%s", got, want, text)
	}

	harness.Fresh(t)
	for _, namespace := range namespaces {
		makeNamespace(t, namespace)
	}
	restore(t, text)
	if _, again, problems := plugin(t, admin, "dump"); again != text || problems != "" {
		t.Errorf("the dump of what was restored differs (-before +after):\n%s%s", cmp.Diff(text, again), problems)
	}
	if _, one, _ := plugin(t, admin, "dump", "-n", "team-a"); strings.Contains(one, "team-b") || strings.Count(one, "kind: Dynamo") != len(written(t, "team-a")) {
		t.Errorf("the dump of one namespace:\n%s", one)
	}
}

// store creates objects.
func store(t *testing.T, all []*unstructured.Unstructured) {
	t.Helper()
	for _, u := range all {
		if err := harness.Client(t).Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
}

// restore applies a dump as a user would.
func restore(t *testing.T, text string) {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup.yaml")
	if err := os.WriteFile(backup, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, problems, err := harness.Kubectl(t, "apply", "--server-side", "-f", backup); err != nil {
		t.Fatalf("apply the dump: %v\n%s%s", err, out, problems)
	}
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
}

func TestADumpOfANamespaceThatIsNotThereFails(t *testing.T) {
	code, stdout, stderr := plugin(t, admin, "dump", "-n", "tema-a")
	if code != 1 || stdout != "" || stderr != "error: there is no namespace \"tema-a\"\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// names are the components, models, adapters and Deployments of a namespace.
func names(t *testing.T, namespace string) []string {
	t.Helper()
	out, problems, err := harness.Kubectl(t, "-n", namespace, "get", "-o", "name",
		"dynamocomponentdeployments,dynamomodels,dynamographdeploymentscalingadapters,deployments,services")
	if err != nil {
		t.Fatalf("%v: %s", err, problems)
	}
	all := strings.Fields(out)
	slices.Sort(all)
	return all
}
