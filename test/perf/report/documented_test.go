// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"flag"
	"os"
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
