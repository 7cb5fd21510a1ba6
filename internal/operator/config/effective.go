// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/api/config/v1alpha1"
)

// hidden stands for what must not be read in a log.
const hidden = "xxxxx"

// Effective is the configuration as it is followed, as one line of JSON, with passwords in addresses left out.
func (c *Config) Effective() (string, error) {
	shown := c.OperatorConfiguration
	shown.APIVersion, shown.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindOperatorConfiguration
	for _, address := range []*string{
		&shown.NATSAddress, &shown.EtcdAddress, &shown.ModelExpressURL, &shown.PrometheusEndpoint, &shown.Tracing.Endpoint, &shown.Webhooks.ClientURL,
	} {
		*address = withoutSecrets(*address)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		return "", fmt.Errorf("encode the effective configuration: %w", err)
	}
	return string(text), nil
}

// credentials are what stands before the @ of an address, with or without a scheme in front.
var credentials = regexp.MustCompile(`^([a-z][a-z0-9+.-]*://)?[^/?#]*@`)

// withoutSecrets hides what addresses can carry besides a host: user and password, and the values of a query. Several
// addresses may be separated by commas.
func withoutSecrets(addresses string) string {
	each := strings.Split(addresses, ",")
	for i, address := range each {
		address = credentials.ReplaceAllString(address, "${1}"+hidden+"@")
		if before, query, ok := strings.Cut(address, "?"); ok {
			address = before + "?" + withoutValues(query)
		}
		each[i] = address
	}
	return strings.Join(each, ",")
}

func withoutValues(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return hidden
	}
	for name := range values {
		values[name] = []string{hidden}
	}
	return values.Encode()
}
