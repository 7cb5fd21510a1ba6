// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// An operator of all namespaces would work in those of the others, so these tests are over before they begin.
func TestAnOperatorListsWhatAnAPIServerCannotStream(t *testing.T) {
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
	ns := harness.Namespace(t)
	namespaced := []string{"dynamographdeployments", "deployments", "pods", "secrets", "leases", "virtualservices"}
	lists(t, ns, harness.ProcessOptions{
		User: "operator-that-lists", Unready: true, Flags: []string{"--config=" + path}, Env: []string{"POD_NAMESPACE=" + ns},
	}, append(namespaced, "queues", "validatingwebhookconfigurations"))
	ns = harness.Namespace(t)
	lists(t, ns, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: []string{"--namespace-scope-lease-duration=3s", "--namespace-scope-lease-renew-interval=1s"}}, namespaced)
}

// lists has an operator work that cannot have its lists streamed, and looks for what it listed.
func lists(t *testing.T, ns string, o harness.ProcessOptions, wanted []string) {
	t.Helper()
	harness.SimulateDeployments(t, ns)
	o.Env = append(o.Env, "KUBE_FEATURE_WatchListClient=false")
	p := harness.StartProcess(t, o)
	create(t, builders.TwoComponents(ns, "chat").Annotation(names.AnnotationEnableGrove, names.False).Obj())
	harness.AwaitReady(t, ns, "chat")
	p.Stop()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, r := range records {
		if r.User != p.User {
			continue
		}
		if strings.Contains(r.URI, "sendInitialEvents") {
			t.Errorf("a list was streamed: %s", r.URI)
		}
		listed[r.Resource] = listed[r.Resource] || r.Verb == "list"
	}
	for _, want := range wanted {
		if !listed[want] {
			t.Errorf("%s were not listed; the log ends with %s", want, p.LastWords(5))
		}
	}
}

// Operators of all namespaces have a role of their own, which has to do for every kind as well.
func TestAnOperatorOfAllNamespacesMakesAndTakesAwayEveryKind(t *testing.T) {
	harness.StartOperator(t, harness.ClusterWide, publishing(), harness.WithFlags("--epp-cluster-role-name=dynamo-operator-epp"))
	origin := harness.Namespace(t)
	harness.SimulateDeployments(t, origin)
	create(t, graph(origin))
	t.Run("kinds", func(t *testing.T) { // the operator outlives what runs in parallel below
		for _, c := range children {
			example := c.await(t, origin)
			t.Run(c.kind.Kind, func(t *testing.T) {
				t.Parallel()
				ns := harness.Namespace(t)
				harness.SimulateDeployments(t, ns)
				if c.name == names.ModelService(model) { // components share it, whoever made it
					create(t, graph(ns))
				} else {
					c.isTaken(t, graph(ns), example)
				}
				c.goes(t, ns)
			})
		}
	})
}

// The key pair of mpirun is kept in one namespace and copied to others, by a restricted operator only where somebody lets it read
// the pair.
func TestTheCopyOfTheKeyPairGoesWithTheLastGraphThatNeedsIt(t *testing.T) {
	for name, restricted := range map[string]bool{"everywhere": false, "in one namespace": true} {
		t.Run(name, func(t *testing.T) {
			home, ns := harness.Namespace(t), harness.Namespace(t)
			only := harness.ClusterWide
			if restricted {
				only = ns
				lend(t, home, "operator-"+ns)
			}
			harness.StartOperator(t, only, harness.WithFlags("--mpi-run-ssh-secret-namespace="+home))
			copiedAndTakenAway(t, home, ns)
		})
	}
}

var keyPair = child{kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, name: "mpi-run-ssh-secret"}

// lend makes a key pair that a user may read.
func lend(t *testing.T, home, user string) {
	t.Helper()
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: keyPair.name},
		Data:       map[string][]byte{names.SSHPrivateKey: []byte("private"), names.SSHPublicKey: []byte("public")},
	})
	meta := metav1.ObjectMeta{Namespace: home, Name: "borrower"}
	create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{keyPair.name}, Verbs: []string{"get"}},
	}})
	create(t, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	})
}

func copiedAndTakenAway(t *testing.T, home, ns string) {
	t.Helper()
	create(t, builders.Graph(ns, "chat").Annotation(names.AnnotationEnableGrove, names.False).
		Service("Large", v1alpha1.ComponentTypeWorker, builders.Args("python3 -m dynamo.trtllm --model acme/tiny-1b"), builders.Nodes(2)).Obj())
	keyPair.await(t, ns)
	harness.Change(t, client.ObjectKey{Namespace: ns, Name: "chat"}, service("Large", onOneNode))
	keyPair.awaitGone(t, ns)
	if _, err := keyPair.read(t, home); err != nil {
		t.Errorf("the pair itself: %v", err)
	}
}
