// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package production_test runs the operator as it runs for users: as processes with webhooks, certificates, leader election
// and metrics, several of them, some of which are told to end or are killed.
package production_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) {
	// There is no kube-proxy: the API server itself has to look up who is behind the Service of the webhooks.
	harness.Main(m, harness.WithAudit(), harness.WithAPIServerArgs("--enable-aggregator-routing=true"))
}

// ownNamespace is where operators keep what is theirs.
const ownNamespace = "dynamo-system"

// user is the identity of the operators of all namespaces.
const user = "operator-production"

func makeOwnNamespace(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace}}
	if err := harness.Client(t).Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// configFile writes a configuration file with some members.
func configFile(t *testing.T, members string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: config.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n"+members), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func port(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// frontend is a graph of one frontend.
func frontend(ns, name string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(ns, name).Service("Frontend", v1alpha1.ComponentTypeFrontend).Obj()
}

var serial atomic.Int64

func uniqueName() string { return fmt.Sprintf("g%d", serial.Add(1)) }

// since reads the requests that were answered after the returned function was made.
func since(t *testing.T) func() []localcluster.AuditRecord {
	t.Helper()
	log := harness.AuditLog(t)
	_, begin, err := localcluster.ReadAudit(log, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() []localcluster.AuditRecord {
		records, _, err := localcluster.ReadAudit(log, begin)
		if err != nil {
			t.Fatal(err)
		}
		return records
	}
}

func isWrite(r localcluster.AuditRecord) bool {
	switch r.Verb {
	case "create", "update", "patch", "delete":
		return r.Resource != "leases" && r.Resource != "events" && !strings.HasSuffix(r.Resource, "reviews")
	}
	return false
}
