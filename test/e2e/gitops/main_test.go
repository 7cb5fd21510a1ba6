// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops tells what tools and people see who keep graphs in a repository and apply them again and again: verdicts
// that can be waited for, and an operator that leaves alone what they manage.
package gitops

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) { harness.Main(m, harness.WithNodes(4, 8), harness.WithAudit()) }

// replicas is the line of the manifest that a scaling adapter competes with.
const replicas = "      replicas: 3\n"

// manifest is what lies in the repository: a frontend, and a worker with the given lines.
func manifest(image string, worker ...string) string {
	return `apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata:
  name: chat
  labels:
    app.kubernetes.io/instance: shop
  annotations:
    argocd.argoproj.io/tracking-id: shop:nvidia.com/DynamoGraphDeployment:chat
spec:
  envs:
  - name: LEVEL
    value: debug
  services:
    Frontend:
      componentType: frontend
      replicas: 1
      extraPodSpec:
        mainContainer:
          image: registry.example.com/dynamo:1
    Decode:
      componentType: worker
` + strings.Join(worker, "") + `      extraPodSpec:
        mainContainer:
          image: ` + image + `
          command: [python3, -m, dynamo.vllm]
`
}

const (
	first  = "registry.example.com/dynamo:1"
	second = "registry.example.com/dynamo:2"
	scaled = "      scalingAdapter:\n        enabled: true\n"
)

// file writes a manifest where kubectl finds it.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubectl runs a command that must succeed, and returns what it printed. A replacement is for the version that kubectl has
// just read; who meets a newer one, because a status was written meanwhile, tries again.
func kubectl(t *testing.T, ns string, args ...string) string {
	t.Helper()
	var out string
	harness.Eventually(t, patience, "kubectl "+strings.Join(args, " "), func() (bool, string) {
		said, problem, err := harness.Kubectl(t, append([]string{"--namespace", ns}, args...)...)
		if err != nil && !strings.Contains(problem, "the object has been modified") {
			t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, problem)
		}
		out = said
		return err == nil, problem
	})
	return out
}

func read(t *testing.T, ns, name string, into client.Object) {
	t.Helper()
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, into); err != nil {
		t.Fatal(err)
	}
}

func graph(t *testing.T, ns string) *v1alpha1.DynamoGraphDeployment {
	t.Helper()
	g := &v1alpha1.DynamoGraphDeployment{}
	read(t, ns, "chat", g)
	return g
}

// history is every state of an object that anybody could have seen.
type history struct {
	key    client.ObjectKey
	kind   schema.GroupVersionKind
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	states []*unstructured.Unstructured
}

// record watches an object from now on.
func record(t *testing.T, ns, name string, kind schema.GroupVersionKind) *history {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	ctx, cancel := context.WithCancel(t.Context())
	w, err := api.Watch(ctx, list, client.InNamespace(ns), client.MatchingFields{"metadata.name": name})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	h := &history{key: client.ObjectKey{Namespace: ns, Name: name}, kind: kind, cancel: cancel}
	h.done.Go(func() {
		for event := range w.ResultChan() {
			if o, ok := event.Object.(*unstructured.Unstructured); ok {
				h.mu.Lock()
				h.states = append(h.states, o)
				h.mu.Unlock()
			}
		}
	})
	return h
}

// end stops watching, once the state of now was seen, and returns what the object was like over time, as told by say,
// without repetitions.
func (h *history) end(t *testing.T, say func(*unstructured.Unstructured) string) []string {
	t.Helper()
	now := &unstructured.Unstructured{}
	now.SetGroupVersionKind(h.kind)
	read(t, h.key.Namespace, h.key.Name, now)
	harness.Eventually(t, patience, "the watch has caught up", func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.ContainsFunc(h.states, func(o *unstructured.Unstructured) bool {
			return o.GetResourceVersion() == now.GetResourceVersion()
		}), now.GetResourceVersion()
	})
	h.cancel()
	h.done.Wait()
	told := make([]string, 0, len(h.states))
	for _, state := range h.states {
		told = append(told, say(state))
	}
	return slices.Compact(told)
}

// writes counts what a user asked the API server to change since a mark, by resource, without status and events.
func writes(t *testing.T, user string, since int64) map[string]int {
	t.Helper()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), since)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range records {
		isWrite := slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
		if r.User == user && isWrite && r.Subresource != "status" && r.Resource != "events" && r.Resource != "leases" {
			counts[r.Resource]++
		}
	}
	return counts
}

// mark returns the place in the audit log from which to count.
func mark(t *testing.T) int64 {
	t.Helper()
	_, end, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}
