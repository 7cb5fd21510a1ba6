// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook carries the webhook configurations the operator is shipped with, so that tests and the local cluster
// register exactly those.
package webhook

import (
	"bufio"
	"bytes"
	_ "embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

//go:embed manifests.yaml
var manifests []byte

// Validating returns the webhooks that refuse what breaks a rule. The caller owns the result.
func Validating() (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	return c, decode(0, c)
}

// Mutating returns the webhook that stamps new graphs. The caller owns the result.
func Mutating() (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	return c, decode(1, c)
}

// Both returns the two configurations. The caller owns them.
func Both() (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration, error) {
	validating, err := Validating()
	if err != nil {
		return nil, nil, err
	}
	mutating, err := Mutating()
	return validating, mutating, err
}

// decode reads one of the two documents.
func decode(index int, into any) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var content []byte
	for range index + 1 {
		var err error
		if content, err = documents.Read(); err != nil {
			return fmt.Errorf("read the shipped webhook configurations: %w", err)
		}
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return fmt.Errorf("decode a shipped webhook configuration: %w", err)
	}
	return nil
}
