// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// check is one element of healthCheckExprs.
type check struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
	Current    string `json:"current"`
}

// checks are those of the example, by kind.
func checks(t *testing.T) map[string]check {
	t.Helper()
	text, err := os.ReadFile("../../deploy/gitops/flux/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		Spec struct {
			HealthCheckExprs []check `json:"healthCheckExprs"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	byKind := map[string]check{}
	for _, c := range kustomization.Spec.HealthCheckExprs {
		if c.APIVersion != v1alpha1.GroupVersion.String() {
			t.Errorf("an expression is about %s", c.APIVersion)
		}
		byKind[c.Kind] = c
	}
	return byKind
}

// isTrue evaluates an expression as Flux does: unchecked, with the members of the object as variables.
func isTrue(t *testing.T, expression string, object map[string]any) bool {
	t.Helper()
	env, err := cel.NewEnv(cel.CrossTypeNumericComparisons(true), cel.OptionalTypes())
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Parse(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	result, _, err := program.ContextEval(t.Context(), object)
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return result.Value() == true
}

// judge says what Flux says of an object: by expressions where there are some, by kstatus otherwise.
func judge(t *testing.T, by map[string]check, object *unstructured.Unstructured) status.Status {
	t.Helper()
	c, ok := by[object.GetKind()]
	if !ok {
		result, err := status.Compute(object)
		if err != nil {
			t.Fatal(err)
		}
		return result.Status
	}
	observed, found, err := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case found && observed != object.GetGeneration(), isTrue(t, c.InProgress, object.Object):
		return status.InProgressStatus
	case isTrue(t, c.Failed, object.Object):
		return status.FailedStatus
	case isTrue(t, c.Current, object.Object):
		return status.CurrentStatus
	}
	return status.InProgressStatus
}

func TestFluxTellsTheStateOfEveryObject(t *testing.T) {
	t.Parallel()
	by := checks(t)
	for kind, states := range samples() {
		for name, s := range states {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				if got := judge(t, by, fields(t, s.object)); got != s.flux {
					t.Errorf("it is %s, want %s", got, s.flux)
				}
			})
		}
	}
}

// TestExpressionsHoldBeforeAnythingIsKnown because Flux looks at a generation first only where a status has one.
func TestExpressionsHoldBeforeAnythingIsKnown(t *testing.T) {
	t.Parallel()
	by := checks(t)
	for _, kind := range []string{"DynamoModel", "DynamoGraphDeploymentRequest", "DynamoCheckpoint"} {
		object := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{}, "status": map[string]any{}}}
		if _, ok := by[kind]; !ok {
			t.Errorf("there is no expression for %s", kind)
		}
		if got := judge(t, by, object); got != status.InProgressStatus {
			t.Errorf("%s with an empty status is %s", kind, got)
		}
	}
}
