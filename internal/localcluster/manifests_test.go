// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"strings"
	"testing"
)

func TestManifestWithoutANameIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	manifest := "---\n# nothing\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: ConfigMap\n"
	_, err := DecodeManifest(strings.NewReader(manifest))
	if err == nil || !strings.Contains(err.Error(), "document") {
		t.Errorf("error is %v, want one that names the document", err)
	}
}
