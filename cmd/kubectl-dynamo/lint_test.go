// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLintEndsAsItShould(t *testing.T) {
	t.Parallel()
	const see = "\nSee 'kubectl dynamo lint --help' for usage.\n"
	for name, tc := range map[string]struct {
		args   string
		code   int
		stderr string
	}{
		"clean":                      {"lint -f testdata/graph.yaml", exitFine, "1 object: 0 errors, 0 warnings, 0 notes\n"},
		"help":                       {"lint --help", exitFine, ""},
		"an error":                   {"lint -f testdata/broken.yaml", exitProblem, "1 object: 2 errors, 0 warnings, 0 notes\n"},
		"a warning":                  {"lint -f testdata/picker.yaml", exitFine, "1 object: 0 errors, 1 warning, 0 notes\n"},
		"a warning, strictly":        {"lint -f testdata/picker.yaml --strict", exitProblem, "1 object: 0 errors, 1 warning, 0 notes\n"},
		"an API that is not there":   {"lint -f testdata/picker.yaml --capabilities lws", exitProblem, "1 object: 1 error, 1 warning, 0 notes\n"},
		"an API that is there":       {"lint -f testdata/picker.yaml --capabilities lws,inferencepool", exitFine, "1 object: 0 errors, 1 warning, 0 notes\n"},
		"several nodes":              {"lint -f testdata/nodes.yaml", exitFine, "1 object: 0 errors, 0 warnings, 0 notes\n"},
		"several nodes, on nothing":  {"lint -f testdata/nodes.yaml --capabilities istio", exitProblem, "1 object: 1 error, 0 warnings, 0 notes\n"},
		"several nodes, on Grove":    {"lint -f testdata/nodes.yaml --capabilities grove", exitFine, "1 object: 0 errors, 0 warnings, 0 notes\n"},
		"several files":              {"lint -f testdata/graph.yaml -f testdata/component.yaml", exitFine, "2 objects: 0 errors, 0 warnings, 0 notes\n"},
		"no file":                    {"lint", exitUsage, "error: say what to lint with -f FILE" + see},
		"an argument":                {"lint testdata/graph.yaml", exitUsage, `error: unexpected argument "testdata/graph.yaml"` + see},
		"unknown output":             {"lint -f x -o yaml", exitUsage, `error: --output "yaml" is not one of text, json` + see},
		"unknown capability":         {"lint -f x --capabilities slurm", exitUsage, `error: --capabilities "slurm" is not one of grove, lws, volcano, kai, istio, inferencepool, monitoring` + see},
		"unknown flag":               {"lint --orchestrator grove", exitUsage, "error: unknown flag: --orchestrator" + see},
		"a file that is not there":   {"lint -f testdata/none.yaml", exitProblem, "error: stat testdata/none.yaml: no such file or directory\n"},
		"a wrong configuration":      {"lint -f testdata/component.yaml --config testdata/graph.yaml", exitProblem, `testdata/graph.yaml: kind: Unsupported value: "DynamoGraphDeployment": supported values: "OperatorConfiguration"` + "\n"},
		"nothing on standard input":  {"lint -f -", exitProblem, "error: nothing to lint in -\n"},
		"nothing of ours":            {"lint -f ../../examples/scaling/autoscaler.yml", exitProblem, "error: nothing to lint in ../../examples/scaling/autoscaler.yml\n"},
		"the operator's own setting": {"lint -f testdata/graph.yaml --config testdata/operator.yaml", exitFine, "1 object: 0 errors, 0 warnings, 0 notes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := execute("", strings.Fields(tc.args)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.stderr, stderr); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"lint.out.txt":   "-f testdata/lint.yaml -f testdata/broken.yaml",
		"lint.out.json":  "-f testdata/lint.yaml -o json",
		"clean.out.json": "-f testdata/graph.yaml -o json",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stdout, _ := execute("", append([]string{"lint"}, strings.Fields(args)...)...)
			golden(t, name, stdout)
		})
	}
}

func TestExamplesAreClean(t *testing.T) {
	t.Parallel()
	for _, capabilities := range []string{"", "--capabilities=lws,inferencepool", "--capabilities=grove,kai,inferencepool"} {
		code, stdout, stderr := execute("", strings.Fields("lint --strict -R -f ../../examples "+capabilities)...)
		if code != exitFine {
			t.Errorf("%q: exit code %d: %s%s", capabilities, code, stdout, stderr)
		}
	}
}

func TestLintReadsStandardInput(t *testing.T) {
	t.Parallel()
	manifest := "apiVersion: nvidia.com/v1alpha1\r\nkind: DynamoModel\r\nmetadata: {name: m}\r\nspec: {modelName: a, baseModelName: \"\"}\r\n"
	code, stdout, _ := execute(manifest, "lint", "-f", "-")
	const want = "standard input:4: error: DynamoModel m: spec.baseModelName: Required value: name the base model, as in modelRef.name of the services that serve it\n"
	if diff := cmp.Diff(want, stdout); diff != "" || code != exitProblem {
		t.Errorf("exit code %d (-want +got):\n%s", code, diff)
	}
}
