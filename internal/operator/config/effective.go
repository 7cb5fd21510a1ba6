// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
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

// scheme is how an address may begin.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)

// withoutSecrets hides what addresses can carry besides a host: user and password, a query, a fragment. Several addresses may
// be separated by commas, and so may parts of a password: everything before the last @ goes. Where it cannot be told what is
// what, nothing is shown.
func withoutSecrets(addresses string) string {
	at, rest := strings.LastIndex(addresses, "@"), strings.IndexAny(addresses, "?#")
	switch {
	case at >= 0 && rest >= 0:
		return hidden
	case at >= 0:
		return scheme.FindString(addresses) + hidden + addresses[at:]
	case rest >= 0:
		return addresses[:rest+1] + hidden
	}
	return addresses
}
