// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdkeys deletes keys from the etcd in which components find each other. It speaks to etcd's JSON gateway, which
// is plain HTTP: one kind of request is no reason for a client library.
package etcdkeys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

const (
	// timeout is how long a call may take, all addresses together. Whoever calls has other work to do.
	timeout = 5 * time.Second

	// deleteRange is where the gateway takes a request to delete.
	deleteRange = "/v3/kv/deleterange"

	// longestReason is how much of a refusal is repeated.
	longestReason = 128
)

// Client deletes keys. It is safe for concurrent use.
type Client struct {
	addresses []string
	http      *http.Client
	breaker   breaker
}

// New returns a client for the given addresses: host and port, with or without a scheme, separated by commas.
func New(addresses string, c clock.PassiveClock) *Client {
	return &Client{
		addresses: split(addresses),
		breaker:   breaker{clock: c},
		// Calls are rare, so no connection is kept; etcd stands in the cluster, so no proxy leads there.
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
}

func split(addresses string) []string {
	var all []string
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimRight(strings.TrimSpace(address), "/")
		if address == "" {
			continue
		}
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		all = append(all, address)
	}
	return all
}

// DeletePrefix deletes every key that begins with the prefix, which has to end in a slash. It asks one address after
// another until one has done it. An etcd that has not answered is left alone for a second, whoever calls: until then the
// answer is the last failure.
func (c *Client) DeletePrefix(ctx context.Context, prefix string) error {
	if len(prefix) < 2 || !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("refused to delete keys from etcd: %q is no prefix that ends in a slash", prefix)
	}
	if len(c.addresses) == 0 {
		return errors.New("no address of etcd is known")
	}
	if err := c.breaker.enter(); err != nil {
		return err
	}
	err := c.anywhere(ctx, prefix)
	c.breaker.leave(err)
	return err
}

func (c *Client) anywhere(ctx context.Context, prefix string) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": []byte(after(prefix))})
	if err != nil {
		return fmt.Errorf("encode a request to etcd: %w", err)
	}
	var failures []error
	for _, address := range c.addresses {
		err := c.ask(ctx, address, body)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// after is the first key behind all that begin with the prefix: the slash at its end, one further.
func after(prefix string) string { return strings.TrimSuffix(prefix, "/") + "0" }

// ask sends a request to one address. Each gets the same share of the time, so that one that hangs does not use it up.
func (c *Client) ask(ctx context.Context, address string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout/time.Duration(len(c.addresses)))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+deleteRange, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("an address of etcd cannot be read: %w", withoutURL(err))
	}
	shown := request.URL.Scheme + "://" + request.URL.Host // and no password
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("etcd at %s does not answer: %w", shown, withoutURL(err))
	}
	defer func() { _ = answer.Body.Close() }()
	reason, err := io.ReadAll(io.LimitReader(answer.Body, longestReason))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd at %s answered %s: %s", shown, answer.Status, strings.TrimSpace(string(reason)))
	}
	if err != nil {
		return fmt.Errorf("etcd at %s did not finish its answer: %w", shown, err)
	}
	return nil
}

// withoutURL takes the address out of an error: it may hold a password, and is named already.
func withoutURL(err error) error {
	if about, ok := errors.AsType[*url.Error](err); ok {
		return about.Err
	}
	return err
}
