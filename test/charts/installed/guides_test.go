// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package installed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// fences are the blocks of a page: what stands behind the backticks, and what is inside.
var fences = regexp.MustCompile("(?ms)^```([^\n]+)\n(.*?)^```$")

// unrun is the reason that a block gives for not being run.
var unrun = regexp.MustCompile(`^sh unrun="([^"]+)"$`)

// reader follows pages as a user does who starts at the root of the repository.
type reader struct {
	*testing.T

	directory string
	kubelets  map[client.ObjectKey]*kubelet.Kubelet
	ran, left int
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{T: t, directory: t.TempDir(), kubelets: map[client.ObjectKey]*kubelet.Kubelet{}}
	for _, name := range []string{"charts", "config", "examples"} {
		path, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(r.directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	tools := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-modfile=tools/go.mod", "-o", filepath.Join(tools, "helm"), "helm.sh/helm/v4/cmd/helm")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, said)
	}
	plugin := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", filepath.Join(tools, "kubectl-dynamo"), "./cmd/kubectl-dynamo")
	if said, err := plugin.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, said)
	}
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	return r
}

// follow runs the blocks of a page one after the other. After each of them a cluster would have started and ended pods.
func (r *reader) follow(page string) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/guides", page))
	if err != nil {
		r.Fatal(err)
	}
	for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
		info, commands := block[1], block[2]
		if reason := unrun.FindStringSubmatch(info); reason != nil {
			r.left++
			r.Logf("%s: not run, %s:\n%s", page, reason[1], commands)
			continue
		}
		if info != "sh" {
			r.Errorf("%s has a block of %q: commands are in sh, with unrun=\"why\" where they cannot run", page, info)
			continue
		}
		r.ran++
		harness.Shell(r, r.directory, commands)
		r.settle()
	}
}

// settle starts and ends operators until they are those that there are Deployments for.
func (r *reader) settle() {
	r.Helper()
	all := &appsv1.DeploymentList{}
	if err := harness.Client(r).List(r.Context(), all, client.MatchingLabels{"control-plane": "controller-manager"}); err != nil {
		r.Fatal(err)
	}
	for i := range all.Items {
		key := client.ObjectKeyFromObject(&all.Items[i])
		if r.kubelets[key] == nil {
			r.kubelets[key] = kubelet.New(r, key.Namespace, key.Name)
			r.kubelets[key].Hasty = true
			harness.AccountLosesRights(r, kubelet.Account(key.Namespace, all.Items[i].Spec.Template.Spec)) // with its release
		}
	}
	for _, k := range r.kubelets {
		k.Roll()
	}
}

// TestTheGuides follows the guides on installation. Their blocks are counted: one that cannot run says so.
func TestTheGuides(t *testing.T) {
	cleanUp(t)
	r := newReader(t)
	for _, ns := range []string{"demo", "team-b"} {
		harness.SimulateDeployments(t, ns)
	}
	for _, page := range []string{"install.md", "upgrade.md", "multi-tenant.md", "production.md", "uninstall.md"} {
		r.follow(page)
	}
	t.Logf("%d blocks were run, %d cannot be", r.ran, r.left)
	if r.ran < 3*r.left {
		t.Errorf("%d blocks cannot be run, and only %d can", r.left, r.ran)
	}
	for _, k := range r.kubelets {
		k.Stop()
	}
}
