// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package followed_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// workshop is the repository, and a machine on which make is run there against the cluster of the tests.
type workshop struct {
	*testing.T

	env []string
	// asked is the file in which a container engine, which only writes down what it is asked for, does so.
	asked string
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	kubeconfig, err := harness.Cluster(t).Kubeconfig(localcluster.UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	w := &workshop{T: t, asked: filepath.Join(tools, "asked")}
	if err := os.WriteFile(filepath.Join(tools, "docker"), []byte("#!/bin/sh\necho \"$@\" >>'"+w.asked+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The make that runs these tests is another one.
	w.env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "PACKAGES", "TESTFLAGS", "IMG", "PLATFORMS", "CONTAINER_TOOL", "ARGS"}, name)
	})
	w.env = append(w.env, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+t.TempDir())
	return w
}

func (w *workshop) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "make", args...)
	cmd.Dir, cmd.Env = story.Root, w.env
	return cmd
}

// make runs a verb and returns what it says.
func (w *workshop) make(args ...string) string {
	w.Helper()
	said, err := w.command(w.Context(), args...).CombinedOutput()
	if err != nil {
		w.Fatalf("make %v: %v\n%s", args, err, said)
	}
	return string(said)
}

// TestEveryVerb runs the verbs of make: those that put things into a cluster on this one, those that need a container engine with one
// that writes down what it is asked for. Of those that take minutes it looks at what they would run.
func TestEveryVerb(t *testing.T) {
	story.CleanUp(t)
	w := newWorkshop(t)
	w.make("build")
	t.Run("install, deploy, run, undeploy, uninstall", func(t *testing.T) { deploys(t, w) })
	t.Run("helm", func(t *testing.T) {
		if said := w.make("helm", "ARGS=template dynamo-platform charts/platform"); !strings.Contains(said, "name: "+story.Deployment) {
			t.Errorf("it says:\n%.2000s", said)
		}
	})
	t.Run("manifests, generate, test-e2e", func(t *testing.T) {
		for verb, want := range map[string]string{
			"manifests": "sh tools/generate.sh", "generate": "sh tools/generate.sh", "test-e2e": "sh tools/test.sh installed",
		} {
			if said := w.make("--dry-run", verb); !strings.Contains(said, want) {
				t.Errorf("make %s would not run %s, but:\n%s", verb, want, said)
			}
		}
	})
	t.Run("with a container engine", func(t *testing.T) { asks(t, w) })
	t.Run("without a container engine", func(t *testing.T) {
		said, err := w.command(t.Context(), "docker-buildx", "CONTAINER_TOOL=no-such-engine").CombinedOutput()
		if err == nil || !strings.Contains(string(said), "there is no no-such-engine on this machine") || !strings.Contains(string(said), "make images") {
			t.Errorf("%v: %s", err, said)
		}
	})
}

// asks looks at what a container engine is asked for.
func asks(t *testing.T, w *workshop) {
	const image = "registry.example.com:5000/team/operator:1.2.3"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"docker-build", "IMG=" + image}, "build --tag " + image + " ."},
		{[]string{"docker-push", "IMG=" + image}, "push " + image},
		{[]string{"docker-buildx", "IMG=" + image, "PLATFORMS=linux/arm64,linux/s390x"}, "buildx build --platform linux/arm64,linux/s390x --tag " + image + " --push ."},
		{[]string{"docker-buildx"}, "buildx build --platform linux/amd64,linux/arm64 --tag dynamo-operator:dev --push ."},
	} {
		if err := os.RemoveAll(w.asked); err != nil {
			t.Fatal(err)
		}
		w.make(tc.args...)
		asked, err := os.ReadFile(w.asked)
		if err != nil {
			t.Fatalf("make %v asks nobody: %v", tc.args, err)
		}
		if diff := cmp.Diff("version\n"+tc.want+"\n", string(asked)); diff != "" {
			t.Errorf("make %v (-want +asked):\n%s", tc.args, diff)
		}
	}
}

// deploys has the operator deployed, run outside the cluster, which runs no images, and taken away.
func deploys(t *testing.T, w *workshop) {
	const image = "registry.example.com:5000/team/operator"
	w.make("install")
	w.make("deploy", "IMG="+image+":1.2.3")
	d := &appsv1.Deployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: story.System, Name: "dynamo-operator"}, d); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Containers[0]; got.Image != image+":1.2.3" || !slices.Contains(got.Args, "--operator-version=1.2.3") {
		t.Errorf("the operator runs the image %s with %v", got.Image, got.Args)
	}
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	harness.Eventually(t, time.Minute, "webhooks that nobody answers", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), story.Frontend(ns), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "failed calling webhook"), fmt.Sprint(err)
	})
	stop := w.run()
	story.Works(t, ns, "9.9.9")
	stop()
	w.make("deploy", "IMG="+image+":1.2.4") // over the address of the operator that ran outside
	w.make("undeploy")
	if out, _, err := harness.Kubectl(t, "get", "crd/dynamographdeployments.nvidia.com", "--output=name"); err != nil {
		t.Errorf("the definitions went with the operator: %s %v", out, err)
	}
	if _, _, err := harness.Kubectl(t, "--namespace="+story.System, "get", "deployment/dynamo-operator"); err == nil {
		t.Error("the operator is there after make undeploy")
	}
	if err := harness.Client(t).Create(t.Context(), story.Frontend(ns), client.DryRunAll); err != nil {
		t.Errorf("the webhooks are there after make undeploy: %v", err)
	}
	w.make("uninstall")
	if _, _, err := harness.Kubectl(t, "get", "crd/dynamographdeployments.nvidia.com"); err == nil {
		t.Error("the definitions are there after make uninstall")
	}
}

// run runs make run until it is told to stop.
func (w *workshop) run() (stop func()) {
	w.Helper()
	health, webhooks := harness.UnusedAddress(w), harness.UnusedAddress(w)
	cmd := w.command(context.WithoutCancel(w.Context()), "run", "ARGS=--operator-version=9.9.9 --metrics-bind-address=0 --health-probe-bind-address="+health)
	cmd.Env = append(slices.Clone(w.env), "WEBHOOK_URL=https://"+webhooks)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// What a terminal does with all of its processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
		if w.Failed() {
			w.Logf("make run said:\n%s", said.String())
		}
	}
	w.Cleanup(stop)
	return stop
}
