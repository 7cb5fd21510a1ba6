// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crds has CustomResourceDefinitions of other projects for tests, where no Go module carries the real ones. They
// are as small as they can be: an operator can find out that the API is there and write to it, and nothing is validated.
package crds

import (
	_ "embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed volcano.yaml
var volcano []byte

//go:embed kai.yaml
var kai []byte

// Volcano returns the definition of PodGroup, scheduling.volcano.sh/v1beta1. Callers own the result.
func Volcano() (*apiextensionsv1.CustomResourceDefinition, error) { return parse("Volcano", volcano) }

// KAI returns the definition of Queue, scheduling.run.ai/v2, which has no namespace. Callers own the result.
func KAI() (*apiextensionsv1.CustomResourceDefinition, error) { return parse("KAI", kai) }

func parse(project string, content []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, crd); err != nil {
		return nil, fmt.Errorf("parse CRD of %s: %w", project, err)
	}
	return crd, nil
}
