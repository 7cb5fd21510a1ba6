// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

func TestRequestsAreFoldedByTheModeOfWhoeverMadeThem(t *testing.T) {
	t.Parallel()
	records := []localcluster.AuditRecord{
		{User: "wide", Verb: "patch", Resource: "pods", Name: "a", URI: "/1", Code: http.StatusCreated},
		{User: "one", Verb: "patch", Resource: "pods", Namespace: "ns", Name: "a", URI: "/2", Code: http.StatusOK},
		{User: "one", Verb: "patch", Resource: "pods", Namespace: "ns", Name: "b", URI: "/3", Code: http.StatusOK},
		{User: "stranger", Verb: "delete", Resource: "pods", URI: "/4"},
	}
	modes := map[string]string{"wide": modeClusterWide, "one": modeRestricted}
	got := fold(records, nil, func(user string) (string, bool) {
		mode, ours := modes[user]
		return mode, ours
	})
	want := []Asked{
		{Mode: modeClusterWide, Verb: "create", Resource: "pods", Selected: true, Example: "wide /1"},
		{Mode: modeClusterWide, Verb: "patch", Resource: "pods", Selected: true, Example: "wide /1"},
		{Mode: modeRestricted, Verb: "patch", Resource: "pods", Namespaced: true, Selected: true, Example: "one /2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
