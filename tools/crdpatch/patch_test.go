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

// component is the generator's output for a component spec, reduced to the members that are patched.
const component = `
type: object
description: ours
properties:
  annotations: {type: object, description: ours, additionalProperties: {type: string}}
  envs: {type: array, description: ours, items: {type: object, description: upstream, required: [name], properties: {name: {type: string, description: upstream}}}}
  livenessProbe: {type: object, description: ours, properties: {periodSeconds: {type: integer, description: upstream}}}
  readinessProbe: {type: object, description: ours, properties: {periodSeconds: {type: integer, description: upstream}}}
  resources: {type: object, description: ours, properties: {limits: {type: object, description: ours}, claims: {type: array, description: ours, items: {type: object, description: upstream}}}}
  autoscaling: {type: object, description: ours, properties: {behavior: {type: object, description: ours, properties: {scaleUp: {type: object, description: upstream}}}, metrics: {type: array, description: ours, items: {type: object, description: upstream}}}}
  eppConfig:
    type: object
    description: ours
    properties:
      configMapRef: {type: object, description: ours, properties: {key: {type: string, description: upstream}}}
      config: {type: object, description: ours, x-kubernetes-preserve-unknown-fields: true}
  extraPodSpec:
    type: object
    description: ours
    required: [containers]
    properties:
      containers: {type: array, description: upstream, items: {type: object, description: upstream, required: [name], properties: {name: {type: string, description: upstream}}}}
      mainContainer: {type: object, description: ours, required: [name], properties: {name: {type: string, description: upstream}}}
`

func indent(text string, depth int) string {
	prefix := strings.Repeat(" ", depth)
	return prefix + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+prefix)
}

// crdOf wraps a component spec into the CRD of the kind that inlines it.
func crdOf(spec string) []byte {
	return []byte(`---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: dynamocomponentdeployments.nvidia.com
spec:
  names: {kind: DynamoComponentDeployment}
  versions:
  - name: v1alpha1
    schema:
      openAPIV3Schema:
        type: object
        description: ours
        properties:
          apiVersion: {type: string, description: upstream}
          kind: {type: string, description: upstream}
          metadata: {type: object}
          spec:
` + indent(spec, 12) + `
          status: {type: object, description: ours, properties: {conditions: {type: array, description: ours, items: {type: object, description: upstream, properties: {type: {type: string, description: upstream}}}}}}
`)
}

func patched(t *testing.T, source []byte) node {
	t.Helper()
	result, err := patch(source)
	if err != nil {
		t.Fatal(err)
	}
	var crd node
	if err := yaml.Unmarshal(result, &crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

func schemaAt(t *testing.T, crd node, path ...string) node {
	t.Helper()
	schemas, err := schemasOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := schemas[0].at(path...)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestPatchRequiresNothingInAPodOverlay(t *testing.T) {
	t.Parallel()
	crd := patched(t, crdOf(component))
	for _, path := range [][]string{{"spec", "extraPodSpec"}, {"spec", "extraPodSpec", "mainContainer"}} {
		if diff := cmp.Diff([]any{}, schemaAt(t, crd, path...)["required"]); diff != "" {
			t.Errorf("required of %v (-want +got):\n%s", path, diff)
		}
	}
	container, _ := schemaAt(t, crd, "spec", "extraPodSpec", "containers").child("items")
	if diff := cmp.Diff([]any{"name"}, container["required"]); diff != "" {
		t.Errorf("required of a further container (-want +got):\n%s", diff)
	}
}

func TestPatchKeepsOurDescriptionsAndDropsThoseOfUpstreamTypes(t *testing.T) {
	t.Parallel()
	result, err := patch(crdOf(component))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(result), "upstream") {
		t.Errorf("descriptions of upstream types are left:\n%s", result)
	}
	want := strings.Count(string(crdOf(component)), "description: ours")
	if got := strings.Count(string(result), "description: ours"); got != want {
		t.Errorf("%d of our %d descriptions are left", got, want)
	}
}

func TestPatchInjectsThePickerConfiguration(t *testing.T) {
	t.Parallel()
	crd := patched(t, crdOf(component))
	config := schemaAt(t, crd, "spec", "eppConfig", "config")
	if config["x-kubernetes-preserve-unknown-fields"] != true || config["type"] != "object" || config["description"] != "ours" {
		t.Errorf("the member itself lost its type, its description or its leniency: %v", config)
	}
	if diff := cmp.Diff([]any{"plugins", "schedulingProfiles"}, config["required"]); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	parameters := schemaAt(t, crd, "spec", "eppConfig", "config", "plugins", "parameters")
	if _, typed := parameters["type"]; typed || parameters["x-kubernetes-preserve-unknown-fields"] != true {
		t.Errorf("parameters of a plugin must be untyped and kept: %v", parameters)
	}
}

func TestPatchKeepsTheCRDWhenItsHelmReleaseGoes(t *testing.T) {
	t.Parallel()
	metadata, _ := patched(t, crdOf(component)).child("metadata")
	want := map[string]any{"helm.sh/resource-policy": "keep"}
	if diff := cmp.Diff(want, metadata["annotations"]); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestPatchIsDeterministicAndIdempotent(t *testing.T) {
	t.Parallel()
	first, err := patch(crdOf(component))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := patch(crdOf(component))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatalf("same input, other output (-first +again):\n%s", diff)
		}
	}
	twice, err := patch(first)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(twice)); diff != "" {
		t.Errorf("patching a patched CRD changes it (-first +twice):\n%s", diff)
	}
}

func TestPatchRefusesWhatItCannotPatch(t *testing.T) {
	t.Parallel()
	big := strings.Replace(component, "description: ours", "description: "+strings.Repeat("x", sizeLimit), 1)
	for name, tc := range map[string]struct {
		source []byte
		want   string
	}{
		"too large for a client-side apply": {source: crdOf(big), want: "a client-side apply allows fewer than 262144"},
		"overlay renamed":                   {source: crdOf(strings.Replace(component, "extraPodSpec:", "podOverlay:", 1)), want: "schema has no extraPodSpec"},
		"main container gone":               {source: crdOf(strings.Replace(component, "mainContainer:", "main:", 1)), want: "schema has no mainContainer"},
		"upstream member renamed":           {source: crdOf(strings.Replace(component, "livenessProbe:", "probe:", 1)), want: "schema has no spec.livenessProbe"},
		"not a CRD":                         {source: []byte("kind: ConfigMap"), want: "CRD has no spec"},
		"no schema":                         {source: []byte("spec: {names: {kind: A}, versions: [{name: v1}]}"), want: "version 0 of the CRD has no schema"},
		"not YAML":                          {source: []byte("a: [b"), want: "parse CRD"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := patch(tc.source)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestDropDescriptionsKeepsAMemberThatIsCalledDescription(t *testing.T) {
	t.Parallel()
	var schema node
	source := `{type: object, properties: {outer: {type: object, properties: {description: {type: string, description: gone}}}}, anyOf: [{description: gone, type: object}]}`
	if err := yaml.Unmarshal([]byte(source), &schema); err != nil {
		t.Fatal(err)
	}
	schema.dropDescriptionsBelow()
	want := node{
		"type": "object",
		"properties": map[string]any{"outer": map[string]any{
			"type":       "object",
			"properties": map[string]any{"description": map[string]any{"type": "string"}},
		}},
		"anyOf": []any{map[string]any{"type": "object"}},
	}
	if diff := cmp.Diff(want, schema); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestRunWritesEveryCRDAndRemovesStaleOnes(t *testing.T) {
	t.Parallel()
	in, out := t.TempDir(), filepath.Join(t.TempDir(), "bases")
	write := func(dir, name string, content []byte) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(in, "wanted.yaml", crdOf(component))
	write(out, "stale.yaml", []byte("old"))
	if err := run(in, out); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "wanted.yaml" {
		t.Errorf("output directory holds %v, want wanted.yaml alone", entries)
	}
}

func TestRunWritesNothingWhenOneCRDIsWrong(t *testing.T) {
	t.Parallel()
	in, out := t.TempDir(), t.TempDir()
	for name, content := range map[string][]byte{"a.yaml": crdOf(component), "b.yaml": []byte("kind: ConfigMap")} {
		if err := os.WriteFile(filepath.Join(in, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(in, out); err == nil || !strings.Contains(err.Error(), "patch b.yaml") {
		t.Errorf("got error %v, want one that names b.yaml", err)
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 0 {
		t.Errorf("output directory holds %v, want nothing", entries)
	}
}

func TestRunRefusesMissingDirectories(t *testing.T) {
	t.Parallel()
	if err := run("", t.TempDir()); err == nil {
		t.Error("no input directory was accepted")
	}
	if err := run(t.TempDir(), t.TempDir()); err == nil {
		t.Error("an input directory without CRDs was accepted")
	}
}
