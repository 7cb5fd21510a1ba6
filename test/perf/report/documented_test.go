// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/performance.md and its plots anew")

const (
	results = "../results"
	docs    = "../../../docs"
)

func TestTheDocumentationShowsTheResults(t *testing.T) {
	t.Parallel()
	stored, err := Read(os.DirFS(results))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range stored.Files() {
		path := filepath.Join(docs, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/%s is out of date; run make generate (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryCommitThatIsNamedIsPartOfTheHistory(t *testing.T) {
	t.Parallel()
	stored, err := Read(os.DirFS(results))
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, run := range stored.Runs {
		named = append(named, run.Commit)
	}
	for _, step := range stored.Steps {
		named = append(named, step.Commits.After)
		if step.Commits.Before != "" {
			named = append(named, step.Commits.Before)
		}
	}
	for _, commit := range named {
		if problem := isAncestor(t, commit); problem != "" {
			t.Error(problem)
		}
	}
	for _, missing := range []string{"0000000000000000000000000000000000000000", "nonsense"} {
		if isAncestor(t, missing) == "" {
			t.Errorf("%s is taken for a part of the history", missing)
		}
	}
}

// isAncestor tells what is wrong with a commit, nothing if what is checked out was made from it. It needs the whole history: a shallow clone
// has none to compare with.
func isAncestor(t *testing.T, commit string) (problem string) {
	t.Helper()
	if said, err := exec.CommandContext(t.Context(), "git", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		return "commit " + commit + " is not in this clone, which has to have all of its history: " + string(said)
	}
	if said, err := exec.CommandContext(t.Context(), "git", "merge-base", "--is-ancestor", commit, "HEAD").CombinedOutput(); err != nil {
		return "commit " + commit + " is not part of the history of what is checked out: " + string(said)
	}
	return ""
}

func TestEveryStepSaysWhatShowsIt(t *testing.T) {
	t.Parallel()
	stored, err := Read(os.DirFS(results))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range stored.Steps {
		if step.Command == "" || step.Commits.After == "" || step.Before == "" || step.After == "" {
			t.Errorf("step %q of %s lacks a command, a commit or a figure: %+v", step.What, step.Date, step)
		}
	}
}
