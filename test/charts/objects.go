// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// decode reads the objects of a stream of documents. Documents without an object are passed over.
func decode(documents []byte) ([]*unstructured.Unstructured, error) {
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
