// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installed_test installs the charts on a real API server with the Helm library and runs the operator as its Deployment says,
// as processes. Releases come, are upgraded, rolled back and go while graphs run and others are being created.
package installed_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

func TestMain(m *testing.M) { story.Main(m) }

const (
	// packed are the charts of the last release.
	packed = story.Root + "/test/testdata/releases"

	// rate is how many graphs are created per second, without being stored.
	rate = 20
)

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

// preset are values that come with the platform.
func preset(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(story.Charts, "platform/presets", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return story.Set(t, string(text))
}

// startLoad creates graphs without storing them until it is stopped, and counts those that are not answered.
func startLoad(t *testing.T, ns string) *harness.Load {
	t.Helper()
	api := harness.Client(t)
	return harness.StartLoad(t, rate, func(ctx context.Context) error { return api.Create(ctx, story.Frontend(ns), client.DryRunAll) }).Strict()
}

// released is the version of the last release that was packed.
func released(t *testing.T) string {
	t.Helper()
	name := filepath.Base(archive(t, "dynamo-platform"))
	return strings.TrimSuffix(strings.TrimPrefix(name, "dynamo-platform-"), ".tgz")
}

// runs checks that all pods have one program.
func runs(t *testing.T, k *kubelet.Kubelet, program string) {
	t.Helper()
	for _, p := range k.Pods {
		if p.Binary() != program {
			t.Errorf("%s runs %s, want %s", p.Name, p.Binary(), program)
		}
	}
}
