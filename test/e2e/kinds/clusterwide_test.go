// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// An operator of all namespaces would work in those of the others, so this test is over before they begin.
func TestAnOperatorListsWhatAnAPIServerCannotStream(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	path := filepath.Join(t.TempDir(), "operator.yaml")
	// Nobody has registered webhooks. They are looked for all the same.
	_, port, err := net.SplitHostPort(harness.UnusedAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	settings := "apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\nwebhooks: {enabled: true, bindAddress: 127.0.0.1, port: " + port + "}\n"
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	p := harness.StartProcess(t, harness.ProcessOptions{
		User: "operator-that-lists", Unready: true, Flags: []string{"--config=" + path},
		Env: []string{"KUBE_FEATURE_WatchListClient=false", "POD_NAMESPACE=" + ns},
	})
	create(t, builders.TwoComponents(ns, "chat").Annotation(names.AnnotationEnableGrove, names.False).Obj())
	harness.AwaitReady(t, ns, "chat")
	p.Stop()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	lists := map[string]bool{}
	for _, r := range records {
		if r.User != p.User {
			continue
		}
		if strings.Contains(r.URI, "sendInitialEvents") {
			t.Errorf("a list was streamed: %s", r.URI)
		}
		lists[r.Resource] = lists[r.Resource] || r.Verb == "list"
	}
	for _, want := range []string{"dynamographdeployments", "deployments", "pods", "secrets", "leases", "queues", "virtualservices", "validatingwebhookconfigurations"} {
		if !lists[want] {
			t.Errorf("%s were not listed; the log ends with %s", want, p.LastWords(5))
		}
	}
}

// The key pair of mpirun is kept in one namespace and copied to others, which only an operator of all namespaces can do.
func TestTheCopyOfTheKeyPairGoesWithTheLastGraphThatNeedsIt(t *testing.T) {
	home, ns := harness.Namespace(t), harness.Namespace(t)
	harness.StartOperator(t, harness.ClusterWide, harness.WithFlags("--mpi-run-ssh-secret-namespace="+home))
	create(t, builders.Graph(ns, "chat").Annotation(names.AnnotationEnableGrove, names.False).
		Service("Large", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.trtllm --model acme/tiny-1b"), builders.Nodes(2)).Obj())
	key := child{kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, name: "mpi-run-ssh-secret"}
	key.await(t, ns)
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, service("Large", onOneNode))
	harness.Eventually(t, patience, "the copy is gone", func() (bool, string) {
		_, err := key.read(t, ns)
		return apierrors.IsNotFound(err), said(t, ns)
	})
	if _, err := key.read(t, home); err != nil {
		t.Errorf("the pair itself: %v", err)
	}
}
