// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
)

// Output formats.
const (
	outputYAML = "yaml"
	outputJSON = "json"
	outputName = "name"
)

func outputs() []string { return []string{outputYAML, outputJSON, outputName} }

// write prints objects. YAML is one document for each, JSON is one List, because that is what kubectl reads.
func write(out io.Writer, format string, objects []*unstructured.Unstructured) error {
	if format == outputJSON {
		return written((&printers.JSONPrinter{}).PrintObj(listOf(objects), out))
	}
	var printer printers.ResourcePrinter = &printers.YAMLPrinter{}
	if format == outputName {
		printer = &printers.NamePrinter{ShortOutput: true}
	}
	for _, o := range objects {
		if err := printer.PrintObj(o, out); err != nil {
			return written(err)
		}
	}
	return nil
}

// listOf is one object that holds others, as kubectl reads it.
func listOf(objects []*unstructured.Unstructured) *unstructured.Unstructured {
	items := make([]any, 0, len(objects))
	for _, o := range objects {
		items = append(items, o.Object)
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "List", "items": items}}
}

func written(err error) error {
	if err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	return nil
}
