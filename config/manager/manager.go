// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager carries the manifests that run the operator in a cluster, so that tests judge exactly those.
package manager

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed manager.yaml
var manifests []byte

//go:embed networkpolicy.yaml
var networkPolicy []byte

//go:embed restricted/manager.yaml
var restrictedManifests []byte

//go:embed restricted/networkpolicy.yaml
var restrictedNetworkPolicy []byte

// All returns every object of an operator of all namespaces. The caller owns the result.
func All() ([]*unstructured.Unstructured, error) { return decode(manifests, networkPolicy) }

// Restricted returns every object of an operator of one namespace, which none of them names. The caller owns the result.
func Restricted() ([]*unstructured.Unstructured, error) {
	return decode(restrictedManifests, restrictedNetworkPolicy)
}

func decode(files ...[]byte) ([]*unstructured.Unstructured, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(bytes.Join(files, []byte("\n---\n")))))
	var all []*unstructured.Unstructured
	for {
		content, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the shipped manifests: %w", err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &u.Object); err != nil {
			return nil, fmt.Errorf("decode a shipped manifest: %w", err)
		}
		if len(u.Object) > 0 {
			all = append(all, u)
		}
	}
}
