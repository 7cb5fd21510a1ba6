// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

const (
	// readablePrefix leaves room for names that tests derive from the namespace.
	readablePrefix = 30
	// accountTimeout bounds the wait for the controller manager to notice a namespace. After an API server was away, it looks
	// again after up to half a minute.
	accountTimeout = time.Minute
	// cleanupTimeout bounds the request that deletes a namespace at the end of a test.
	cleanupTimeout = 10 * time.Second
)

// Namespace makes a namespace for the test and has it deleted when the test ends. Nobody waits for the deletion.
func Namespace(t testing.TB) string {
	t.Helper()
	p := plane(t)
	name := namespaceName(t.Name(), rand.String(6))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := p.admin.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		if p.keptNamespaces {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if err := p.admin.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			t.Logf("delete namespace %s: %v", name, err)
		}
	})
	if p.options.ControllerManager {
		awaitDefaultAccount(t, p.admin, name)
	}
	return name
}

// awaitDefaultAccount waits for the service account without which the API server refuses every pod.
func awaitDefaultAccount(t testing.TB, api client.Client, namespace string) {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: "default"}
	Eventually(t, accountTimeout, "default service account of "+namespace, func() (bool, string) {
		if err := api.Get(t.Context(), key, &corev1.ServiceAccount{}); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
}

// namespaceName turns a test's name into a DNS label that is still recognisable.
func namespaceName(test, suffix string) string {
	name := strings.ToLower(strings.TrimPrefix(test, "Test"))
	name = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(name, "-")
	if len(name) > readablePrefix {
		name = name[:readablePrefix]
	}
	return "t-" + strings.Trim(name, "-") + "-" + suffix
}

// Kubectl runs kubectl as the administrator.
func Kubectl(t testing.TB, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), kubectl(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.Env = administrator(t, os.Getenv("PATH"))
	err = cmd.Run()
	return out.String(), problems.String(), err
}

// Shell runs commands of an administrator in a directory, as a page of the documentation has them, and fails the test with the
// first of them that fails.
func Shell(t testing.TB, directory, commands string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", commands)
	cmd.Dir = directory
	cmd.Env = administrator(t, filepath.Dir(kubectl(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s\n%s", err, commands, said)
	}
}

func kubectl(t testing.TB) string {
	t.Helper()
	binaries, err := localcluster.EnsureBinaries(t.Context(), []string{localcluster.Kubectl}, os.Stderr)
	if err != nil {
		t.Fatalf("build kubectl: %v", err)
	}
	return binaries[localcluster.Kubectl]
}

// administrator is the environment of somebody who may do everything.
func administrator(t testing.TB, path string) []string {
	t.Helper()
	kubeconfig, err := plane(t).cluster.Kubeconfig(localcluster.UserAdmin)
	if err != nil {
		t.Fatalf("find kubeconfig: %v", err)
	}
	// A home of its own keeps kubectl's discovery cache of this cluster away from the next one.
	return []string{"PATH=" + path, "HOME=" + filepath.Join(filepath.Dir(kubeconfig), "home"), "KUBECONFIG=" + kubeconfig}
}
