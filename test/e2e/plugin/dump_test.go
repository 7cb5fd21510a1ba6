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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
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
	backup := filepath.Join(t.TempDir(), "backup.yaml")
	if err := os.WriteFile(backup, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, problems, err := harness.Kubectl(t, "apply", "--server-side", "-f", backup); err != nil {
		t.Fatalf("apply the dump: %v\n%s%s", err, out, problems)
	}
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
