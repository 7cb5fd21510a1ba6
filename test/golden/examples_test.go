// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/internal/offline"
)

const examples = "../../examples"

func TestEveryExampleCanBeRendered(t *testing.T) {
	t.Parallel()
	for _, path := range exampleFiles(t) {
		for _, orchestrator := range []offline.Orchestrator{offline.LWS, offline.Grove} {
			t.Run(strings.TrimPrefix(path, examples+"/")+"/"+string(orchestrator), func(t *testing.T) {
				t.Parallel()
				documents, problems := offline.Read(offline.File{Name: path, Content: []byte(read(t, path))})
				operator := offline.DefaultOperator()
				operator.Orchestrator = orchestrator
				objects, more := offline.Objects(documents, operator)
				if problems = append(problems, more...); len(problems) > 0 {
					t.Fatal(lines(problems))
				}
				if len(objects) == 0 {
					t.Fatal("nothing is made of it")
				}
			})
		}
	}
}

func TestEveryExampleIsInTheIndex(t *testing.T) {
	t.Parallel()
	index := read(t, filepath.Join(examples, "README.md"))
	for _, path := range exampleFiles(t) {
		if name := strings.TrimPrefix(path, examples+"/"); !strings.Contains(index, "("+name+")") {
			t.Errorf("README.md of the examples does not name %s", name)
		}
	}
}

func exampleFiles(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(examples, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".yaml" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
