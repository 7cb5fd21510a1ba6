// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

var update = flag.Bool("update", false, "write the results anew")

const (
	inputFile    = "input.yaml"
	operatorFile = "operator.yaml"
	clusterFile  = "cluster.txt"
	objectsFile  = "objects.yaml"
	errorFile    = "error.txt"
	coverageFile = "COVERAGE.md"
)

func TestManifestsBecomeTheseObjects(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, problems := renderCase(t, name)
			expect(t, filepath.Join(name, objectsFile), objects)
			expect(t, filepath.Join(name, errorFile), problems)
		})
	}
}

func TestRenderingTwiceGivesTheSame(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, problems := renderCase(t, name)
			for range 3 {
				again, againProblems := renderCase(t, name)
				if diff := cmp.Diff(objects+problems, again+againProblems); diff != "" {
					t.Fatalf("(-first +again):\n%s", diff)
				}
			}
		})
	}
}

func TestEveryCaseIsInTheCoverageTable(t *testing.T) {
	t.Parallel()
	table := read(t, coverageFile)
	for _, name := range cases(t) {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("%s does not name case `%s`: add it to the rules that it shows", coverageFile, name)
		}
	}
}

func TestTheCoverageTableNamesOnlyCases(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, name := range cases(t) {
		known[name] = true
	}
	for line := range strings.Lines(read(t, coverageFile)) {
		columns := strings.Split(line, "|")
		if !strings.HasPrefix(line, "|") || len(columns) < 4 {
			continue
		}
		for i, text := range strings.Split(columns[len(columns)-2], "`") {
			if i%2 == 1 && !known[text] {
				t.Errorf("%s names `%s`, which is no case", coverageFile, text)
			}
		}
	}
}

func TestEveryCaseSaysWhatItShows(t *testing.T) {
	t.Parallel()
	for _, name := range cases(t) {
		if !strings.HasPrefix(read(t, filepath.Join(name, inputFile)), "# ") {
			t.Errorf("%s/%s has to begin with a comment that says what it shows", name, inputFile)
		}
	}
}

// cases are the directories beside this file.
func cases(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// load returns the documents of a case and the operator that is played in it.
func load(t testing.TB, name string) (offline.Operator, []offline.Document) {
	t.Helper()
	operator, documents, problems := tryLoad(t, name)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return operator, documents
}

func tryLoad(t testing.TB, name string) (offline.Operator, []offline.Document, []offline.Problem) {
	t.Helper()
	operator := offline.DefaultOperator()
	content, err := os.ReadFile(filepath.Join(name, operatorFile))
	if err == nil {
		var problems []offline.Problem
		if operator, problems = offline.Configured(operatorFile, content); len(problems) > 0 {
			return operator, nil, problems
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, api := range served(t, name) {
		if !operator.Settings.Serves.Add(api) {
			t.Fatalf("%s/%s: there is no optional API %q", name, clusterFile, api)
		}
	}
	documents, problems := offline.Read(offline.File{Name: inputFile, Content: []byte(read(t, filepath.Join(name, inputFile)))})
	return operator, documents, problems
}

// served are the optional APIs of the cluster that a case plays in.
func served(t testing.TB, name string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(name, clusterFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

// renderCase returns the objects of a case as text, or the problems, one per line.
func renderCase(t testing.TB, name string) (objects, problems string) {
	t.Helper()
	operator, documents, errs := tryLoad(t, name)
	rendered, more := offline.Objects(documents, operator)
	if errs = append(errs, more...); len(errs) > 0 {
		return "", lines(errs)
	}
	var text bytes.Buffer
	printer := &printers.YAMLPrinter{}
	for _, o := range rendered {
		if err := printer.PrintObj(o, &text); err != nil {
			t.Fatal(err)
		}
	}
	return text.String(), ""
}

func lines(problems []offline.Problem) string {
	var text strings.Builder
	for _, p := range problems {
		text.WriteString(p.Error() + "\n")
	}
	return text.String()
}

// expect compares a result with the file that holds it. An empty result has no file.
func expect(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		writeGolden(t, path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func writeGolden(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path, []byte(text), 0o644)
	if text == "" {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
