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

// facts are what the files of a package say.
type facts struct{ hasTests, starts, isChecked bool }

// TestEveryPackageThatStartsGoroutinesIsChecked reads the tree: a package that has tests, and starts goroutines in them or in what they
// test, has a TestMain that looks for those that are left.
func TestEveryPackageThatStartsGoroutinesIsChecked(t *testing.T) {
	t.Parallel()
	packages := map[string]facts{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isLeftOut(path):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, filepath.Dir(path)) // both are relative to the same place
		known := packages[name]
		packages[name] = facts{
			hasTests:  known.hasTests || strings.HasSuffix(path, "_test.go"),
			starts:    known.starts || startsSomething(file),
			isChecked: known.isChecked || hasCheckingMain(file),
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if p := packages[name]; p.starts && p.hasTests && !p.isChecked && unchecked[name] == "" {
			t.Errorf("%s starts goroutines, and has no TestMain that calls leaks.Main", name)
		}
	}
}

// isLeftOut tells whether a directory has no package that could be checked: the tools are a module that does not import this one.
func isLeftOut(path string) bool {
	name := filepath.Base(path)
	return name == "testdata" || name == "dist" || name == ".git" || path == filepath.Join(root, "tools")
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
