// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installed_test installs the charts on a real API server with the Helm library and runs the operator as its Deployment says,
// as processes. Releases come, are upgraded, rolled back and go while graphs run and others are being created.
package installed_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/charts"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.WithoutDefinitions(), harness.WithAudit(), harness.WithAPIServerArgs("--enable-aggregator-routing=true"))
}

const (
	root = "../../.."
	// ours are the charts of this tree, packed those of the last release.
	ours   = root + "/charts"
	packed = root + "/test/testdata/releases"

	// full is how objects of the release dynamo-platform are called.
	full       = "dynamo-platform-dynamo-operator"
	deployment = full + "-controller-manager"
	system     = "dynamo-system"

	// rate is how many graphs are created per second, without being stored.
	rate = 20
)

// definitions and platform are releases as the guides call them.
func definitions() charts.Release { return charts.Release{Name: "dynamo-crds", Namespace: "default"} }

func platform(values map[string]any) charts.Release {
	return charts.Release{Name: "dynamo-platform", Namespace: system, Values: values}
}

// archive is the chart of a name in the last release that was packed, of which one is kept.
func archive(t *testing.T, name string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(packed, name+"-*.tgz"))
	if err != nil || len(all) != 1 {
		t.Fatalf("the last release has these charts of %s: %v, %v", name, all, err)
	}
	return all[0]
}

// lastOperator is the operator of the last release, built from the commit that it was made of.
func lastOperator(t *testing.T) string {
	t.Helper()
	revision, err := os.ReadFile(filepath.Join(packed, "dynamo-operator-"+released(t)+".commit"))
	if err != nil {
		t.Fatalf("nothing tells which commit release %s was made of, which make release writes beside its charts: %v", released(t), err)
	}
	return harness.EarlierOperator(t, strings.TrimSpace(string(revision)))
}

// helm is Helm as the administrator.
func helm(t *testing.T) charts.Helm {
	t.Helper()
	kubeconfig, err := harness.Cluster(t).Kubeconfig(localcluster.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	return charts.Helm{Kubeconfig: kubeconfig}
}

// upgrade installs a chart, or upgrades to it.
func upgrade(t *testing.T, chart string, r charts.Release) {
	t.Helper()
	if err := helm(t).Upgrade(t.Context(), chart, r); err != nil {
		t.Fatal(err)
	}
}

// preset are values that come with the platform.
func preset(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(ours, "platform/presets", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return set(t, string(text))
}

// set are values in YAML.
func set(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

var serial atomic.Int64

// frontend is a graph of one frontend, with a name of its own.
func frontend(ns string) *v1alpha1.DynamoGraphDeployment {
	name := "g" + strconv.FormatInt(serial.Add(1), 10)
	return builders.Graph(ns, name).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj()
}

// startLoad creates graphs without storing them until it is stopped, and counts those that are not answered.
func startLoad(t *testing.T, ns string) *harness.Load {
	t.Helper()
	api := harness.Client(t)
	return harness.StartLoad(t, rate, func(ctx context.Context) error { return api.Create(ctx, frontend(ns), client.DryRunAll) }).Strict()
}
