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
func All() ([]*unstructured.Unstructured, error) { return shipped(manifests, networkPolicy) }

// Restricted returns every object of an operator of one namespace, which none of them names. The caller owns the result.
func Restricted() ([]*unstructured.Unstructured, error) {
	return shipped(restrictedManifests, restrictedNetworkPolicy)
}

func shipped(files ...[]byte) ([]*unstructured.Unstructured, error) {
	all, err := Decode(bytes.Join(files, []byte("\n---\n")))
	if err != nil {
		return nil, fmt.Errorf("read the shipped manifests: %w", err)
	}
	return all, nil
}

// Decode reads the objects of a stream of documents. Documents without an object are passed over. A key that stands twice is an
// error: what is shipped must mean the same to whoever reads it.
func Decode(documents []byte) ([]*unstructured.Unstructured, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(documents)))
	var all []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read documents: %w", err)
		}
		content, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("decode a document: %w", err)
		}
		if string(content) == "null" {
			continue
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(content); err != nil {
			return nil, fmt.Errorf("decode an object: %w", err)
		}
		all = append(all, u)
	}
}
