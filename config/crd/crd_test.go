// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
)

func TestAllReturnsOneDefinitionForEveryKindOfTheScheme(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	crds, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, definition := range crds {
		names = append(names, definition.Name)
		for _, kind := range []string{definition.Spec.Names.Kind, definition.Spec.Names.ListKind} {
			if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)) {
				t.Errorf("%s defines %s, which is not in the scheme", definition.Name, kind)
			}
		}
	}
	want := []string{
		"dynamocheckpoints.nvidia.com",
		"dynamocomponentdeployments.nvidia.com",
		"dynamographdeploymentrequests.nvidia.com",
		"dynamographdeployments.nvidia.com",
		"dynamographdeploymentscalingadapters.nvidia.com",
		"dynamomodels.nvidia.com",
		"dynamoworkermetadatas.nvidia.com",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
}

func TestAllReturnsDefinitionsTheCallerMayChange(t *testing.T) {
	t.Parallel()
	first, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	first[0].Name = "changed"
	second, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	if second[0].Name == "changed" {
		t.Error("a change to the result of one call shows up in the next one")
	}
}
