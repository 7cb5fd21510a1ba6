// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

const (
	page  = "../../../docs/configuration.md"
	types = "../../../api/config/v1alpha1/operatorconfiguration_types.go"
)

func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	want := document(t)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/configuration.md is out of date; run make generate (-want +got):\n%s", diff)
	}
}

// document is the page.
func document(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), types, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	d := &keys{comments: comments(file)}
	d.walk(reflect.ValueOf(Defaults()), "")
	return `# Configuration

Generated from ` + "`api/config/v1alpha1`" + ` by ` + "`make generate`" + `; do not edit.

The operator reads one file, ` + "`--config operator.yaml`" + `, and the flags of the reference, which win where they are given. The file is read strictly: a
key that is not in this table ends the start, with its path, and so do combinations that cannot work, all of them at once. ` + "`kubectl dynamo render`" + ` and
` + "`kubectl dynamo lint`" + ` read the same file. The operator logs the configuration that it follows, without passwords.

` + "```yaml\n" + `apiVersion: config.nvidia.com/v1alpha1
kind: OperatorConfiguration
leaderElection:
  enabled: true
  id: dynamo.nvidia.com
webhooks:
  enabled: true
` + "```" + `

| Key | Default | Meaning |
|---|---|---|
` + d.rows.String()
}

// comments are the texts above the members of every type.
func comments(file *ast.File) map[string]string {
	texts := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		structure, ok := spec.Type.(*ast.StructType)
		if !ok {
			return false
		}
		said := ""
		for _, f := range structure.Fields.List {
			if text := strings.Join(strings.Fields(f.Doc.Text()), " "); text != "" {
				said = text
			}
			for _, name := range f.Names {
				texts[spec.Name.Name+"."+name.Name] = said
			}
		}
		return false
	})
	return texts
}

// keys collects the rows of the table.
type keys struct {
	comments map[string]string
	rows     strings.Builder
}

func (k *keys) walk(v reflect.Value, prefix string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue // the header
		}
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[metav1.Duration]() {
			k.walk(v.Field(i), prefix+name+".")
			continue
		}
		value := ""
		if !v.Field(i).IsZero() {
			text, err := json.Marshal(v.Field(i).Interface())
			if err != nil {
				panic(err)
			}
			value = "`" + strings.Trim(string(text), `"`) + "`"
		}
		fmt.Fprintf(&k.rows, "| `%s%s` | %s | %s |\n", prefix, name, value, k.comments[v.Type().Name()+"."+f.Name])
	}
}

func TestEveryKeyHasAMeaning(t *testing.T) {
	t.Parallel()
	for line := range strings.SplitSeq(document(t), "\n") {
		if strings.HasPrefix(line, "| `") && strings.HasSuffix(line, "|  |") {
			t.Errorf("no comment: %s", line)
		}
	}
}
