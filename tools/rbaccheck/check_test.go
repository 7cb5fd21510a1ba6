// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const role = `
rules:
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [mine]
  verbs: [get, patch]
- apiGroups: [apps]
  resources: [deployments, deployments/status]
  verbs: [patch]
`

func TestEveryKindOfProblemIsFound(t *testing.T) {
	t.Parallel()
	everything := []Asked{
		{Verb: "get", Resource: "secrets", Name: "other", Selected: true},
		{Verb: "list", Resource: "secrets", Selected: true},
		{Verb: "patch", Resource: "secrets", Name: "mine", Selected: true},
		{Verb: "patch", Group: "apps", Resource: "deployments", Selected: true},
		{Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "status", Selected: true},
	}
	doubled := "get secrets mine is granted for every name already"
	for name, tc := range map[string]struct {
		asked      []Asked
		exceptions string
		want       []string
	}{
		"nothing":         {everything, "", []string{doubled}},
		"an unused right": {everything[:4], "", []string{doubled, "patch apps/deployments/status is granted, and no test used it: take it away, or give the reason in the exceptions"}},
		"an excused one":  {everything[:4], "unused: [{rights: [patch apps/deployments/status], reason: because}]", []string{doubled}},
		"a right for a name that others asked for": {
			append([]Asked{{Verb: "patch", Resource: "secrets", Name: "other", Selected: true}}, append(everything[:2:2], everything[3:]...)...), "",
			[]string{doubled, "patch secrets mine is granted, and no test used it: take it away, or give the reason in the exceptions"},
		},
		"a denied request": {
			append([]Asked{{Verb: "delete", Resource: "pods", Denied: true, Example: "operator /pods"}}, everything...), "",
			[]string{"delete pods was denied: operator /pods", doubled},
		},
		"an excused denial": {
			append([]Asked{{Verb: "delete", Resource: "pods", Denied: true}}, everything...), "denied: [{rights: ['* pods'], reason: because}]", []string{doubled},
		},
		"Secrets without a selector": {
			append([]Asked{{Verb: "list", Resource: "secrets", Example: "operator /secrets"}}, everything...), "",
			[]string{"Secrets were asked for without saying which: operator /secrets", doubled},
		},
		"an exception that is one at times": {
			everything, "unused: [{rights: [patch apps/deployments/status], reason: because, sometimes: true}]", []string{doubled},
		},
		"an exception that is none": {
			everything, "unused: [{rights: [get nodes]}]",
			[]string{doubled, `the exception "get nodes" is not needed any longer`, "the exception for get nodes has no reason"},
		},
	} {
		var r Role
		var x Exceptions
		if err := yaml.Unmarshal([]byte(role), &r); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(tc.exceptions), &x); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, Check(r, x, tc.asked)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEachModeIsComparedWithItsOwnRequests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"role.yaml": "rules: [{apiGroups: [''], resources: [pods], verbs: [get, list]}]",
		"exceptions.yaml": `
unused:
- {rights: [get pods], reason: because, mode: one}
- {rights: [list pods], reason: because, mode: other}`,
		"asked.json": `[{"verb": "list", "resource": "pods", "mode": "one"}, {"verb": "list", "resource": "pods", "mode": "other"}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for mode, want := range map[string][]string{
		"one": nil,
		"other": {
			"get pods is granted, and no test used it: take it away, or give the reason in the exceptions",
			`the exception "list pods" is not needed any longer`,
		},
	} {
		got, err := run(mode, filepath.Join(dir, "role.yaml"), filepath.Join(dir, "exceptions.yaml"), dir)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", mode, err, diff)
		}
	}
	if _, err := run("third", filepath.Join(dir, "role.yaml"), filepath.Join(dir, "exceptions.yaml"), dir); err == nil {
		t.Error("a mode that no operator had is taken for proved")
	}
}

func TestNothingAskedProvesNothing(t *testing.T) {
	t.Parallel()
	if _, err := run("restricted", "../../config/rbac/role.yaml", "exceptions.yaml", t.TempDir()); err == nil || !strings.Contains(err.Error(), "prove nothing") {
		t.Errorf("an empty directory is taken for a proof: %v", err)
	}
}
