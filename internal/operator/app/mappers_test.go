// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// late is a cluster that serves a kind only after it was asked once.
type late struct {
	meta.RESTMapper
	asked int
}

func (l *late) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	l.asked++
	if l.asked == 1 {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return &meta.RESTMapping{GroupVersionKind: kind.WithVersion(versions[0])}, nil
}

func TestAKindIsLookedUpUntilItIsServedAndNeverAgain(t *testing.T) {
	t.Parallel()
	server := &late{}
	mapper := rememberingMapper{RESTMapper: server, known: &sync.Map{}}
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	if _, err := mapper.RESTMapping(kind, "v1"); !meta.IsNoMatchError(err) {
		t.Fatalf("a kind that is not served: %v", err)
	}
	for range 3 {
		if mapping, err := mapper.RESTMapping(kind, "v1"); err != nil || mapping.GroupVersionKind.Version != "v1" {
			t.Fatalf("%v, %v", mapping, err)
		}
	}
	if server.asked != 2 {
		t.Errorf("asked %d times, want 2", server.asked)
	}
	if mapping, err := mapper.RESTMapping(kind, "v1beta1"); err != nil || mapping.GroupVersionKind.Version != "v1beta1" {
		t.Errorf("another version: %v, %v", mapping, err)
	}
}
