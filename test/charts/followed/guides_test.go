// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package followed_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/charts/story"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// fences are the blocks of a page: what stands behind the backticks, and what is inside.
var fences = regexp.MustCompile("(?ms)^```([^\n]+)\n(.*?)^```$")

// unrun is the reason that a block gives for not being run, rolls the one for replacing pods of graphs.
var (
	unrun = regexp.MustCompile(`^sh unrun="([^"]+)"$`)
	rolls = regexp.MustCompile(`^sh rolls="([^"]+)"$`)
)

// reader follows pages as a user does who starts at the root of the repository.
type reader struct {
	*testing.T

	directory string
	kubelets  map[client.ObjectKey]*kubelet.Kubelet
	// templates are what the pods of the graph are made from that runs while pages are followed; nil while there is none.
	templates map[string]string
	// elsewhere is a namespace for graphs that show that the operator works.
	elsewhere string
	ran, left int
}

// demo is where the pages have their graph.
const demo = "demo"

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{T: t, directory: t.TempDir(), kubelets: map[client.ObjectKey]*kubelet.Kubelet{}, elsewhere: harness.Namespace(t)}
	for _, name := range []string{"charts", "config", "examples"} {
		path, err := filepath.Abs(filepath.Join(story.Root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(r.directory, name)); err != nil {
			t.Fatal(err)
		}
	}
	tools := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", story.Root, "-modfile=tools/go.mod", "-o", filepath.Join(tools, "helm"), "helm.sh/helm/v4/cmd/helm")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v\n%s", err, said)
	}
	plugin := exec.CommandContext(t.Context(), "go", "build", "-C", story.Root, "-o", filepath.Join(tools, "kubectl-dynamo"), "./cmd/kubectl-dynamo")
	if said, err := plugin.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, said)
	}
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	return r
}

// follow runs the blocks of a page one after the other. After each of them a cluster would have started and ended pods. No pod of a
// graph is replaced on the way, but by blocks that say so.
func (r *reader) follow(page string) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(story.Root, "docs/guides", page))
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
		reason := rolls.FindStringSubmatch(info)
		if info != "sh" && reason == nil {
			r.Errorf("%s has a block of %q: commands are in sh, with unrun=\"why\" where they cannot run, rolls=\"why\" where they replace pods", page, info)
			continue
		}
		if reason != nil {
			r.still(page + ", before its pods are replaced")
		}
		r.ran++
		harness.Shell(r, r.directory, commands)
		r.settle()
		if reason != nil {
			r.moved(page, reason[1])
		}
	}
	r.still(page)
}

// now are the templates of the Deployments of the graph.
func (r *reader) now() map[string]string {
	r.Helper()
	all := &appsv1.DeploymentList{}
	if err := harness.Client(r).List(r.Context(), all, client.InNamespace(demo), client.HasLabels{names.LabelGraph}); err != nil {
		r.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	templates := map[string]string{}
	for _, d := range all.Items {
		text, err := json.MarshalIndent(d.Spec.Template, "", " ")
		if err != nil {
			r.Fatal(err)
		}
		templates[d.Name] = string(text)
	}
	return templates
}

// still checks that pods of the graph are made from what they were. An operator that was replaced on the way has looked at all graphs
// when it has finished a new one. The first time there is nothing to compare with.
func (r *reader) still(where string) {
	r.Helper()
	if k := r.kubelets[client.ObjectKey{Namespace: story.System, Name: story.Deployment}]; k != nil && len(k.Pods) > 0 {
		g := story.Frontend(r.elsewhere)
		if err := harness.Client(r).Create(r.Context(), g); err != nil {
			r.Fatal(err)
		}
		harness.AwaitReady(r, r.elsewhere, g.Name)
	}
	now := r.now()
	if r.templates != nil && now != nil {
		if diff := cmp.Diff(r.templates, now); diff != "" {
			r.Errorf("%s: pods of a graph are made from something else (-before +after):\n%s", where, diff)
		}
	}
	r.templates = now
}

// moved waits until the pods of the graph are made from something else, as a block said they would be.
func (r *reader) moved(page, why string) {
	r.Helper()
	harness.Eventually(r, time.Minute, page+": pods are replaced, since "+why, func() (bool, string) {
		return cmp.Diff(r.templates, r.now()) != "", "they are made from what they were"
	})
	harness.AwaitReady(r, demo, "quickstart")
	r.templates = r.now()
}

// block is the one of a page that has a text in it, whether it can be run there or not.
func (r *reader) block(page, with string) string {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(story.Root, "docs/guides", page))
	if err != nil {
		r.Fatal(err)
	}
	var found []string
	for _, block := range fences.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(block[2], with) {
			found = append(found, block[2])
		}
	}
	if len(found) != 1 {
		r.Fatalf("%s has %d blocks with %q", page, len(found), with)
	}
	return found[0]
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
	story.CleanUp(t)
	r := newReader(t)
	for _, ns := range []string{demo, "team-b", r.elsewhere} {
		harness.SimulateDeployments(t, ns)
	}
	storage := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example.com/standard",
	}
	if err := harness.Client(t).Create(t.Context(), storage); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := harness.Client(t).Delete(context.WithoutCancel(t.Context()), storage); err != nil {
			t.Error(err)
		}
	})
	after := map[string]func(){"install.md": r.imagesComeFromTheirRegistries, "production.md": r.everythingIsSetStill, "messaging.md": r.everythingIsSetStill}
	for _, page := range []string{"install.md", "upgrade.md", "multi-tenant.md", "production.md", "messaging.md", "uninstall.md"} {
		r.follow(page)
		if check := after[page]; check != nil {
			check()
		}
		if page == "install.md" && r.templates == nil {
			t.Fatal("no graph runs; nothing is proved about what its pods are made from")
		}
	}
	t.Logf("%d blocks were run, %d cannot be", r.ran, r.left)
	if r.ran < 3*r.left {
		t.Errorf("%d blocks cannot be run, and only %d can", r.left, r.ran)
	}
	for _, k := range r.kubelets {
		k.Stop()
	}
}

// imagesComeFromTheirRegistries checks that naming the registry of the operator leaves the images of others where they are.
func (r *reader) imagesComeFromTheirRegistries() {
	r.Helper()
	const registry = "registry.example.com/team/"
	d, others := &appsv1.Deployment{}, &appsv1.StatefulSetList{}
	if err := harness.Client(r).Get(r.Context(), client.ObjectKey{Namespace: story.System, Name: story.Deployment}, d); err != nil {
		r.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; !strings.HasPrefix(got, registry+"dynamo-operator:") {
		r.Errorf("the operator's image is %s", got)
	}
	if err := harness.Client(r).List(r.Context(), others, client.InNamespace(story.System)); err != nil || len(others.Items) == 0 {
		r.Fatalf("%d StatefulSets: %v", len(others.Items), err)
	}
	for _, s := range others.Items {
		for _, c := range s.Spec.Template.Spec.Containers {
			if strings.HasPrefix(c.Image, registry) {
				r.Errorf("%s is looked for at %s", s.Name, c.Image)
			}
		}
	}
}

// everythingIsSetStill checks that later commands have undone nothing of what earlier ones set: the image of the installation, the
// preset of production, and who reads metrics.
func (r *reader) everythingIsSetStill() {
	r.Helper()
	d := &appsv1.Deployment{}
	if err := harness.Client(r).Get(r.Context(), client.ObjectKey{Namespace: story.System, Name: story.Deployment}, d); err != nil {
		r.Fatal(err)
	}
	memory := d.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
	if memory.String() != "1Gi" || !strings.HasPrefix(d.Spec.Template.Spec.Containers[0].Image, "registry.example.com/team/") {
		r.Errorf("the operator has %s of memory and the image %s", memory, d.Spec.Template.Spec.Containers[0].Image)
	}
	harness.Shell(r, r.directory, "kubectl auth can-i get /metrics --as=system:serviceaccount:monitoring:prometheus")
}
