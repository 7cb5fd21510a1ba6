// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// dialTimeout is how long a worker may take to accept a connection.
const dialTimeout = 5 * time.Second

// Dial connects to an address.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// MapAddresses returns a Dial that connects to another address where lookup knows one. EndpointSlices cannot hold the
// addresses of a machine that talks to itself; this is how workers on such are reached by the addresses of pods.
func MapAddresses(lookup func(address string) (string, bool)) Dial {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if other, ok := lookup(address); ok {
			address = other
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// ParseAddressMap reads "10.0.0.1:9090=127.0.0.1:40001,..." into a lookup for MapAddresses.
func ParseAddressMap(text string) (func(string) (string, bool), error) {
	addresses := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("address map: %q is not of the form host:port=host:port", pair)
		}
		addresses[from] = to
	}
	return func(address string) (string, bool) {
		to, ok := addresses[address]
		return to, ok
	}, nil
}

// NewClient returns a client for workers. It follows no redirects: a worker never sends anybody elsewhere.
func NewClient(dial Dial) *http.Client {
	return &http.Client{
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}
