// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAuditReaderLeavesAHalfWrittenLineForLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	whole := `{"auditID":"1","stage":"ResponseComplete","verb":"patch","user":{"username":"u"},"requestURI":"/r",` +
		`"objectRef":{"resource":"pods","namespace":"n","name":"p","apiVersion":"v1","subresource":"status"},"responseStatus":{"code":200}}` + "\n" +
		`{"auditID":"2","stage":"ResponseStarted","verb":"watch"}` + "\n"
	if err := os.WriteFile(path, []byte(whole+`{"auditID":"3","sta`), 0o600); err != nil {
		t.Fatal(err)
	}
	records, offset, err := ReadAudit(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []AuditRecord{{
		ID: "1", User: "u", Verb: "patch", Version: "v1", Resource: "pods", Subresource: "status",
		Namespace: "n", Name: "p", URI: "/r", Code: 200,
	}}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if offset != int64(len(whole)) {
		t.Errorf("next offset is %d, want %d", offset, len(whole))
	}
}
