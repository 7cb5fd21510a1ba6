// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/simulator/crds"
)

func TestACRDCanComeAndGo(t *testing.T) {
	t.Parallel()
	ns := Namespace(t)
	volcano, err := crds.Volcano()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		InstallCRDs(t, volcano)
		group := &unstructured.Unstructured{}
		group.SetAPIVersion("scheduling.volcano.sh/v1beta1")
		group.SetKind("PodGroup")
		group.SetName("gang")
		group.SetNamespace(ns)
		if err := Client(t).Create(t.Context(), group); err != nil {
			t.Fatalf("create an object of a new kind: %v", err)
		}
		RemoveCRDs(t, volcano)
		if err := Client(t).Get(t.Context(), client.ObjectKeyFromObject(group), group); !apierrors.IsNotFound(err) {
			t.Fatalf("get an object of a kind that is gone: %v, want not found", err)
		}
	}
}
