// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package skew tells what happens while not everything is of the same release: the API server, the definitions, the operator.
//
// tools/skew.sh sets what is old: DYNAMO_TEST_OLD_API runs the API server of the oldest minor that is tested, DYNAMO_TEST_OLD_TREE
// is a directory with the program of an earlier operator and its definitions. Without them everything is as new as this tree.
package skew

import (
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	var options []harness.Option
	if os.Getenv("DYNAMO_TEST_OLD_API") != "" {
		options = append(options, harness.WithOldAPIServer())
	}
	harness.Main(m, options...)
}

// oldTree is where an earlier operator lies, empty if there is none.
func oldTree() string { return os.Getenv("DYNAMO_TEST_OLD_TREE") }

// oldOperator is the program of an earlier operator.
func oldOperator(t *testing.T) string {
	t.Helper()
	if oldTree() == "" {
		return harness.OperatorBinary(t)
	}
	return filepath.Join(oldTree(), "operator")
}

// oldDefinitions are those of an earlier release.
func oldDefinitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	if oldTree() == "" {
		return newDefinitions(t)
	}
	files, err := filepath.Glob(filepath.Join(oldTree(), "crd", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions in %s: %v", oldTree(), err)
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

func newDefinitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	all, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// install makes the cluster serve definitions.
func install(t *testing.T, all []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if err := localcluster.InstallCRDs(t.Context(), harness.RESTConfig(t, localcluster.UserAdmin), all); err != nil {
		t.Fatal(err)
	}
}
