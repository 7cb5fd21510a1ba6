// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission_test compares those who judge an object: the API server, its code in our process, our rules, and the
// command line. A rule that two of them enforce has to mean the same to both.
package admission_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/offline/schema"
	"github.com/dynamo-operator/dynamo-operator/test/admission/cases"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// all are the cases, and the good object of every kind.
func all(t testing.TB) ([]cases.Case, map[string]map[string]any) {
	t.Helper()
	every, err := cases.All()
	if err != nil {
		t.Fatal(err)
	}
	bases, err := cases.Bases()
	if err != nil {
		t.Fatal(err)
	}
	return every, bases
}

// placed is an object in the namespace of a test, with whole numbers as the API server reads them.
func placed(t testing.TB, object map[string]any, namespace string) map[string]any {
	t.Helper()
	if object == nil {
		return nil
	}
	text, err := json.Marshal(cases.Merge(object, map[string]any{"metadata": map[string]any{"namespace": namespace}}))
	if err != nil {
		t.Fatal(err)
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

func typed(t testing.TB, object map[string]any) runtime.Object {
	t.Helper()
	o, err := cases.Typed(object)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func definition(t testing.TB, object map[string]any) *schema.Definition {
	t.Helper()
	kind, _ := object["kind"].(string)
	d, err := schema.Of(kind)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// ours are the names of the rules that our definitions enforce too, and that our own code finds broken.
func ours(errs field.ErrorList) []string {
	enforced := map[string]bool{}
	for _, rule := range admission.Rules() {
		enforced[rule.Name] = rule.Places&admission.Schema != 0
	}
	broken := map[string]bool{}
	for _, err := range errs {
		if enforced[err.Origin] {
			broken[err.Origin] = true
		}
	}
	return slices.Sorted(maps.Keys(broken))
}

// causes are what the API server says against an object: field and text of each cause.
func causes(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		t.Fatalf("got %v, want an answer or a refusal of the content", err)
	}
	var said []string
	for _, cause := range status.Status().Details.Causes {
		said = append(said, cause.Field+": "+cause.Message)
	}
	return said
}

func texts(errs field.ErrorList) []string {
	var said []string
	for _, err := range errs {
		said = append(said, err.Field+": "+err.ErrorBody())
	}
	return said
}

// compare holds the API server, its code in our process and our rules against each other.
func compare(t testing.TB, name string, server []string, process field.ErrorList, rules []string) {
	t.Helper()
	for _, text := range texts(process) {
		if !slices.Contains(server, text) {
			t.Errorf("%s: the code in our process says %q, the API server %q", name, text, server)
		}
	}
	if (len(server) > 0) != (len(process) > 0) {
		t.Errorf("%s: the API server says %q, its code in our process %q", name, server, texts(process))
	}
	if (len(server) > 0) != (len(rules) > 0) {
		t.Errorf("%s: the API server says %q, rules that are broken and enforced by it: %q", name, server, rules)
	}
}

// dryCreate asks the API server what it would say to a new object.
func dryCreate(t testing.TB, object map[string]any) error {
	t.Helper()
	manifest := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	return harness.Client(t).Create(t.Context(), manifest, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// title names an object that was made of cases.
func title(seed uint64, chosen []cases.Case) string {
	text := fmt.Sprintf("seed %d", seed)
	for _, c := range chosen {
		text += fmt.Sprintf(", %s (%s)", c.Rule, c.Name)
	}
	return text
}
