// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd carries the generated CustomResourceDefinitions inside the binary, so that tests and tools install
// exactly the definitions this version of the code was built with.
package crd

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// All returns every CustomResourceDefinition of the group, ordered by name. Callers own the result.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := bases.ReadDir("bases")
	if err != nil {
		return nil, fmt.Errorf("list embedded CRDs: %w", err)
	}
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		content, err := bases.ReadFile("bases/" + entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read embedded CRD %s: %w", entry.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			return nil, fmt.Errorf("parse embedded CRD %s: %w", entry.Name(), err)
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
