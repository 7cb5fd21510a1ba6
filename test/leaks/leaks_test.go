// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { Main(m) }

func TestWhatRunsIsFoundUntilItEnds(t *testing.T) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	err := check(time.Second)
	close(end)
	<-ended
	if err == nil || !strings.Contains(err.Error(), "TestWhatRunsIsFoundUntilItEnds") {
		t.Errorf("a goroutine that waits is not found: %v", err)
	}
}

// root is that of the module, from here.
const root = "../.."

// checking are the calls in a TestMain by which a package is checked.
var checking = map[string]bool{"leaks.Main": true, "leaks.Checked": true, "harness.Main": true, "story.Main": true, "Main": true}

// unchecked are packages that are left out.
var unchecked = map[string]string{"test/perf/scoreboard": "it measures, and make test does not run it"}

// starting are calls that start goroutines, besides the statement: those of groups, and servers of tests.
var starting = map[string]bool{"Go": true, "NewServer": true, "NewTLSServer": true, "NewUnstartedServer": true}

// TestEveryPackageThatStartsGoroutinesIsChecked reads the tree: a package that has tests, and starts goroutines in them or in what they
// test, has a TestMain that looks for those that are left.
func TestEveryPackageThatStartsGoroutinesIsChecked(t *testing.T) {
	t.Parallel()
	hasTests, starts, isChecked := map[string]bool{}, map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "dist" || entry.Name() == ".git" || path == filepath.Join(root, "tools")) {
			return fs.SkipDir // tools are a module of its own, which does not import this one
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		directory := filepath.Dir(path)
		hasTests[directory] = hasTests[directory] || strings.HasSuffix(path, "_test.go")
		starts[directory] = starts[directory] || startsSomething(file)
		isChecked[directory] = isChecked[directory] || hasCheckingMain(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, directory := range slices.Sorted(maps.Keys(starts)) {
		name := strings.TrimPrefix(directory, root+"/")
		if starts[directory] && hasTests[directory] && !isChecked[directory] && unchecked[name] == "" {
			t.Errorf("%s starts goroutines, and has no TestMain that calls leaks.Main", name)
		}
	}
}

// startsSomething tells whether a file has a go statement or a call that stands for one.
func startsSomething(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && starting[s.Sel.Name] {
				found = true
			}
		}
		return !found
	})
	return found
}

// hasCheckingMain tells whether a file has a TestMain that ends by looking for goroutines.
func hasCheckingMain(file *ast.File) bool {
	found := false
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && checking[nameOf(call.Fun)] {
				found = true
			}
			return !found
		})
	}
	return found
}

// nameOf is how a function is called: with the package before it, if it is another's.
func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return nameOf(f.X) + "." + f.Sel.Name
	}
	return ""
}
