// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api_test holds the wire contract against a real API server: what each kind accepts, fills in, drops and
// refuses. Objects are sent as a user would write them, so that the Go types cannot hide a mistake of the schema.
package api_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m)
}

// accepted is a spec the API server stores. Without want it must be stored exactly as it was sent.
type accepted struct {
	spec string
	want string
}

// refused is a spec the API server answers with an error about a field.
type refused struct {
	spec string
	// field is the path the error must name.
	field string
	// says is a part of the explanation, where the field alone does not tell two reasons apart.
	says string
}

// parse reads YAML into plain values, the way a manifest is read. Whole numbers keep all their digits.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	var value map[string]any
	if err := json.Unmarshal(asJSON, &value); err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return value
}

// object builds a manifest of a kind. An empty spec is left out.
func object(t testing.TB, namespace, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	manifest := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != "" {
		manifest.Object["spec"] = parse(t, spec)
	}
	manifest.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	manifest.SetNamespace(namespace)
	manifest.SetGenerateName("case-")
	return manifest
}

// create sends a manifest with strict validation, as kubectl does.
func create(t testing.TB, manifest *unstructured.Unstructured) error {
	t.Helper()
	return harness.Client(t).Create(t.Context(), manifest, client.FieldValidation(metav1.FieldValidationStrict))
}

// mustCreate sends a manifest that has to be accepted and returns what was stored.
func mustCreate(t testing.TB, namespace, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	manifest := object(t, namespace, kind, spec)
	if err := create(t, manifest); err != nil {
		t.Fatalf("create %s: %v", kind, err)
	}
	return manifest
}

// checkAccepted creates every case and compares the stored spec.
func checkAccepted(t *testing.T, kind string, cases map[string]accepted) {
	t.Helper()
	namespace := harness.Namespace(t)
	t.Run("accepted", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				want := tc.want
				if want == "" {
					want = tc.spec
				}
				stored := mustCreate(t, namespace, kind, tc.spec)
				if diff := cmp.Diff(plain(t, parse(t, want)), plain(t, stored.Object["spec"])); diff != "" {
					t.Errorf("stored spec (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// checkRefused creates every case and looks for the field in the error.
func checkRefused(t *testing.T, kind string, cases map[string]refused) {
	t.Helper()
	namespace := harness.Namespace(t)
	t.Run("refused", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				expectRefusal(t, create(t, object(t, namespace, kind, tc.spec)), tc)
			})
		}
	})
}

// expectRefusal checks that an error is about the expected field.
func expectRefusal(t testing.TB, err error, want refused) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want an error about %s", want.field)
	}
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		t.Fatalf("got %v, want a refusal of the content", err)
	}
	if fields := refusedFields(err); !slices.Contains(fields, want.field) {
		t.Errorf("error is about %q, want %q: %v", fields, want.field, err)
	}
	if !strings.Contains(err.Error(), want.says) {
		t.Errorf("got %v, want it to say %q", err, want.says)
	}
}

// changed is an update, and what the API server says against it. Without says it must be accepted. An empty was means an
// object without a spec.
type changed struct{ was, is, says string }

// checkChanges makes every update on an object of its own.
func checkChanges(t *testing.T, kind string, cases map[string]changed) {
	t.Helper()
	namespace := harness.Namespace(t)
	t.Run("changed", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stored := mustCreate(t, namespace, kind, tc.was)
				stored.Object["spec"] = parse(t, tc.is)
				err := harness.Client(t).Update(t.Context(), stored, client.FieldValidation(metav1.FieldValidationStrict))
				if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("got %v, want %q", err, tc.says)
				}
			})
		}
	})
}

// mapKey matches the way rules write the key of a map in a path; the schema writes it after a dot.
var mapKey = regexp.MustCompile(`\[([^\]0-9][^\]]*)\]`)

// refusedFields returns the paths an error names. Strict decoding and number formats report them only in the text.
func refusedFields(err error) []string {
	var fields []string
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			fields = append(fields, mapKey.ReplaceAllString(cause.Field, ".$1"))
		}
	}
	for _, part := range strings.Split(err.Error(), "unknown field ")[1:] {
		if quoted := strings.SplitN(part, `"`, 3); len(quoted) == 3 {
			fields = append(fields, quoted[1])
		}
	}
	if _, path, found := strings.Cut(err.Error(), "with format int32 in "); found {
		fields = append(fields, path)
	}
	return fields
}

// plain turns values of any Go type into the types JSON knows, so that they can be compared.
func plain(t testing.TB, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var result any
	if err := json.Unmarshal(text, &result); err != nil {
		t.Fatal(err)
	}
	return result
}

// writeStatus stores a status through the subresource.
func writeStatus(ctx context.Context, t testing.TB, stored *unstructured.Unstructured, status string) error {
	t.Helper()
	stored.Object["status"] = parse(t, status)
	return harness.Client(t).Status().Update(ctx, stored, &client.SubResourceUpdateOptions{
		UpdateOptions: client.UpdateOptions{FieldValidation: metav1.FieldValidationStrict},
	})
}

// checkStatusAccepted writes every status to an object of its own and compares what was stored.
func checkStatusAccepted(t *testing.T, kind, spec string, cases map[string]accepted) {
	t.Helper()
	namespace := harness.Namespace(t)
	t.Run("status accepted", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stored := mustCreate(t, namespace, kind, spec)
				if err := writeStatus(t.Context(), t, stored, tc.spec); err != nil {
					t.Fatalf("write status: %v", err)
				}
				want := tc.want
				if want == "" {
					want = tc.spec
				}
				if diff := cmp.Diff(plain(t, parse(t, want)), plain(t, stored.Object["status"])); diff != "" {
					t.Errorf("stored status (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// checkStatusRefused writes every status to an object of its own and looks for the field in the error.
func checkStatusRefused(t *testing.T, kind, spec string, cases map[string]refused) {
	t.Helper()
	namespace := harness.Namespace(t)
	t.Run("status refused", func(t *testing.T) {
		for name, tc := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				stored := mustCreate(t, namespace, kind, spec)
				expectRefusal(t, writeStatus(t.Context(), t, stored, tc.spec), tc)
			})
		}
	})
}

// repeat joins n copies of a line in which %d stands for the number of the copy.
func repeat(n int, format string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// condition is one valid entry of status.conditions, for cases that spoil a part of it.
const condition = `type: Ready, status: "True", reason: Fine, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"`

// conditionRefusals are the limits every conditions list has.
func conditionRefusals(others string) map[string]refused {
	status := func(entry string) string { return others + "\nconditions:\n- {" + entry + "}" }
	spoil := func(old, spoiled string) string { return status(strings.Replace(condition, old, spoiled, 1)) }
	return map[string]refused{
		"condition type malformed":        {spec: spoil("type: Ready", `type: "not ready"`), field: "status.conditions[0].type"},
		"condition type too long":         {spec: spoil("type: Ready", "type: "+strings.Repeat("a", 317)), field: "status.conditions[0].type"},
		"condition status unknown":        {spec: spoil(`status: "True"`, `status: "true"`), field: "status.conditions[0].status"},
		"condition reason empty":          {spec: spoil("reason: Fine", `reason: ""`), field: "status.conditions[0].reason"},
		"condition reason malformed":      {spec: spoil("reason: Fine", `reason: "not fine"`), field: "status.conditions[0].reason"},
		"condition reason too long":       {spec: spoil("reason: Fine", "reason: "+strings.Repeat("a", 1025)), field: "status.conditions[0].reason"},
		"condition message too long":      {spec: spoil(`message: ""`, "message: "+strings.Repeat("a", 32769)), field: "status.conditions[0].message"},
		"condition time malformed":        {spec: spoil("2026-01-01T00:00:00Z", "yesterday"), field: "status.conditions[0].lastTransitionTime"},
		"condition generation below zero": {spec: status(condition + ", observedGeneration: -1"), field: "status.conditions[0].observedGeneration"},
		"condition type missing":          {spec: spoil("type: Ready, ", ""), field: "status.conditions[0].type"},
		"condition status missing":        {spec: spoil(`status: "True", `, ""), field: "status.conditions[0].status"},
		"condition reason missing":        {spec: spoil("reason: Fine, ", ""), field: "status.conditions[0].reason"},
		"condition message missing":       {spec: spoil(`message: "", `, ""), field: "status.conditions[0].message"},
		"condition time missing":          {spec: spoil(`, lastTransitionTime: "2026-01-01T00:00:00Z"`, ""), field: "status.conditions[0].lastTransitionTime"},
	}
}
