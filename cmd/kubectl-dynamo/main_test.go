// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var update = flag.Bool("update", false, "write the expected outputs anew")

// execute runs a command line as a user would.
func execute(stdin string, args ...string) (code int, stdout, stderr string) {
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	code = run(args, streams)
	return code, out.String(), errOut.String()
}

func TestCommandLinesEndAsTheyShould(t *testing.T) {
	t.Parallel()
	const see = "\nSee 'kubectl dynamo render --help' for usage.\n"
	empty := t.TempDir()
	for name, tc := range map[string]struct {
		args   string
		code   int
		stderr string
	}{
		"fine":                      {"render -f testdata/graph.yaml", exitFine, ""},
		"help":                      {"render --help", exitFine, ""},
		"nothing but the name":      {"", exitFine, ""},
		"the default orchestrator":  {"render -f testdata/graph.yaml --orchestrator deployment --capabilities grove,lws", exitFine, ""},
		"capabilities":              {"render -f testdata/graph.yaml --capabilities lws,volcano,kai,istio,inferencepool,monitoring", exitFine, ""},
		"unknown command":           {"rendr", exitUsage, "error: unknown command \"rendr\"\nSee 'kubectl dynamo --help' for usage.\n"},
		"unknown form of a dump":    {"dump -o name", exitUsage, "error: --output \"name\" is not one of yaml, json\nSee 'kubectl dynamo dump --help' for usage.\n"},
		"unknown form of findings":  {"preflight -o yaml", exitUsage, "error: --output \"yaml\" is not one of table, json\nSee 'kubectl dynamo preflight --help' for usage.\n"},
		"unknown preset":            {"preflight --preset staging", exitUsage, "error: --preset \"staging\" is not one of development, production, multi-tenant\nSee 'kubectl dynamo preflight --help' for usage.\n"},
		"unknown flag":              {"render --file x", exitUsage, "error: unknown flag: --file" + see},
		"no file":                   {"render", exitUsage, "error: say what to render with -f FILE" + see},
		"an argument":               {"render testdata/graph.yaml", exitUsage, `error: unexpected argument "testdata/graph.yaml"` + see},
		"unknown output":            {"render -f x -o wide", exitUsage, `error: --output "wide" is not one of yaml, json, name` + see},
		"unknown orchestrator":      {"render -f x --orchestrator nomad", exitUsage, `error: --orchestrator "nomad" is not one of deployment, lws, grove` + see},
		"unknown capability":        {"render -f x --capabilities lws,slurm", exitUsage, `error: --capabilities "slurm" is not one of grove, lws, volcano, kai, istio, inferencepool, monitoring` + see},
		"LeaderWorkerSets":          {"render -f testdata/nodes.yaml --orchestrator lws", exitFine, ""},
		"Grove":                     {"render -f testdata/nodes.yaml --orchestrator grove", exitFine, ""},
		"nothing for several nodes": {"render -f testdata/nodes.yaml --orchestrator deployment", exitProblem, "testdata/nodes.yaml: DynamoGraphDeployment nodes: spec.services[Worker].multinode: Forbidden: no multinode orchestrator available: install LeaderWorkerSet or Grove in the cluster, or remove multinode\n"},
		"Grove by the rule":         {"render -f testdata/nodes.yaml --capabilities grove", exitFine, ""},
		"a file that is not there":  {"render -f testdata/none.yaml", exitProblem, "error: stat testdata/none.yaml: no such file or directory\n"},
		"no configuration there":    {"render -f testdata/graph.yaml --config none.yaml", exitProblem, "error: open none.yaml: no such file or directory\n"},
		"a wrong configuration":     {"render -f testdata/component.yaml --config testdata/graph.yaml", exitProblem, `testdata/graph.yaml: kind: Unsupported value: "DynamoGraphDeployment": supported values: "OperatorConfiguration"` + "\n"},
		"an empty directory":        {"render -f " + empty, exitProblem, "error: no .yaml, .yml or .json file in " + empty + "\n"},
		"nothing on standard input": {"render -f -", exitProblem, "error: nothing to render in -\n"},
		"another namespace":         {"render -f testdata/graph.yaml -f testdata/component.yaml -n team-a", exitFine, ""},
		"every problem of a graph": {"render -f testdata/broken.yaml", exitProblem,
			"testdata/broken.yaml: DynamoGraphDeployment broken: spec.services[Frontend].extraPodSpec.mainContainer.image: Required value: name the image that runs this component\n" +
				"testdata/broken.yaml: DynamoGraphDeployment broken: spec.services[Worker].replicas: Invalid value: -1: must not be negative\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute("", strings.Fields(tc.args)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.stderr, stderr); diff != "" {
				t.Errorf("standard error (-want +got):\n%s", diff)
			}
			if (stdout == "") != (tc.code != exitFine) {
				t.Errorf("exit code %d and this on standard output: %q", code, stdout)
			}
		})
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"component.out.yaml":       "-f testdata/component.yaml",
		"component.out.json":       "-f testdata/component.yaml -o json",
		"graph.out.txt":            "-f testdata/graph.yaml -o name",
		"graph-configured.out.txt": "-f testdata/graph.yaml -o name --config testdata/operator.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute("", append([]string{"render"}, strings.Fields(args)...)...)
			if code != exitFine {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			golden(t, name, stdout)
		})
	}
}

// golden compares an output with the file that holds it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestJSONIsOneListOfWhatYAMLPrints(t *testing.T) {
	t.Parallel()
	_, names, _ := execute("", "render", "-f", "testdata/graph.yaml", "-o", "name")
	_, text, _ := execute("", "render", "-f", "testdata/graph.yaml", "-o", "json")
	var list struct {
		APIVersion, Kind string
		Items            []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if list.APIVersion != "v1" || list.Kind != "List" || len(list.Items) != strings.Count(names, "\n") {
		t.Errorf("got %s %s of %d, want a v1 List of %d", list.APIVersion, list.Kind, len(list.Items), strings.Count(names, "\n"))
	}
}

func TestStandardInputAndDirectoriesAreRead(t *testing.T) {
	t.Parallel()
	manifest, err := os.ReadFile("testdata/component.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for path, name := range map[string]string{"b.yml": "second", "a.yaml": "first", "below/c.yaml": "third", "notes.txt": "ignored"} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(manifest), "name: tool", "name: "+name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"standard input": {[]string{"-f", "-"}, "tool"},
		"a directory":    {[]string{"-f", dir}, "first second"},
		"and below":      {[]string{"-f", dir, "-R"}, "first second third"},
		"several":        {[]string{"-f", filepath.Join(dir, "b.yml"), "-f", "-"}, "second tool"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := execute(string(manifest), append([]string{"render", "-o", "name"}, tc.args...)...)
			if code != exitFine {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			var got []string
			for line := range strings.Lines(stdout) {
				if name, ok := strings.CutPrefix(strings.TrimSpace(line), "deployment.apps/"); ok {
					got = append(got, name)
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheNamespaceFlagPlacesObjectsThatNameNone(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "default", "-n team-a": "team-a", "--namespace=team-b": "team-b"} {
		_, stdout, _ := execute("", append([]string{"render", "-f", "testdata/component.yaml"}, strings.Fields(args)...)...)
		if got := strings.Count(stdout, "\n  namespace: "+want+"\n"); got != 2 {
			t.Errorf("%q: %d objects in namespace %s, want 2", args, got, want)
		}
	}
}
