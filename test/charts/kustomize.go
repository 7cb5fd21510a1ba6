// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/dynamo-operator/dynamo-operator/config/manager"
)

// Build returns what kustomize makes of a directory.
func Build(directory string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), directory)
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", directory, err)
	}
	documents, err := built.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("write what %s makes: %w", directory, err)
	}
	return manager.Decode(documents)
}
