// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// readsOfANewOperator are all reads outside its own namespace that a new operator may send, and how often.
func readsOfANewOperator() map[string]int {
	reads := discovery()
	reads["create selfsubjectreviews"] = 2           // who it is itself
	reads["get validatingwebhookconfigurations"] = 4 // whether they have its certificates
	reads["get mutatingwebhookconfigurations"] = 4   // the same
	reads["list leases"] = 2                         // which namespaces restricted operators hold
	return reads
}

// readsOfARestrictedOperator are those of one that runs inside a test, without webhooks and an election.
func readsOfARestrictedOperator() map[string]int {
	return discovery()
}

// discovery is how a client of Kubernetes learns what the cluster serves, first and again once what was missing may have come.
func discovery() map[string]int {
	reads := map[string]int{}
	for _, path := range []string{
		"/api", "/apis", "/apis/grove.io/v1alpha1", "/apis/inference.networking.k8s.io/v1", "/apis/leaderworkerset.x-k8s.io/v1",
		"/apis/networking.istio.io/v1beta1", "/apis/scheduling.run.ai/v2", "/apis/scheduling.volcano.sh/v1beta1",
	} {
		reads["get "+path] = 10
	}
	return reads
}

// checkReads fails for reads outside an operator's namespace that are not on a list, or more often than it says.
func checkReads(t *testing.T, records []localcluster.AuditRecord, user, own string, most map[string]int) {
	t.Helper()
	got := readsOutside(records, user, own)
	t.Logf("reads outside %s: %v", own, got)
	if wrong := unlisted(got, most); len(wrong) > 0 {
		t.Errorf("reads outside %s that nobody expects, or too many of: %v, want at most %v\n%s", own, wrong, most, Transcript(records, user))
	}
}

// unlisted are the reads that are not on a list, or more often than it says.
func unlisted(got, most map[string]int) map[string]int {
	wrong := map[string]int{}
	for read, n := range got {
		if n > most[read] {
			wrong[read] = n
		}
	}
	return wrong
}

func TestAListOfAllSecretsIsFound(t *testing.T) {
	t.Parallel()
	record := func(verb, resource, namespace, uri string) localcluster.AuditRecord {
		return localcluster.AuditRecord{User: OperatorUser, Verb: verb, Resource: resource, Namespace: namespace, URI: uri}
	}
	records := []localcluster.AuditRecord{
		record("get", "", "", "/apis?timeout=32s"), record("get", "", "", "/apis"),
		record("get", "secrets", ownNamespace, "/own"), record("list", "secrets", "", "/all"), record("list", "secrets", "ns", "/some"),
		record("watch", "secrets", "", "/all"), record("update", "configmaps", "ns", "/one"), record("create", "selfsubjectreviews", "", "/me"),
	}
	got := readsOutside(records, OperatorUser, ownNamespace)
	if diff := cmp.Diff(map[string]int{"get /apis": 2, "list secrets": 2, "create selfsubjectreviews": 1}, got); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	wrong := unlisted(got, map[string]int{"get /apis": 1, "create selfsubjectreviews": 1})
	if diff := cmp.Diff(map[string]int{"get /apis": 2, "list secrets": 2}, wrong); diff != "" {
		t.Errorf("reads that are not expected (-want +got):\n%s", diff)
	}
}
