// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
)

// Compact makes etcd forget what was before a revision, which is also a resource version, so that nobody can go on from there.
// One request is no reason for a client library: it is written down as gRPC wants it.
func (c *Cluster) Compact(ctx context.Context, revision uint64) error {
	tls, err := c.pki.etcdClientTLS()
	if err != nil {
		return err
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	// Member 1 is the revision, member 2 says to return when the past is gone.
	message := append(binary.AppendUvarint([]byte{0x08}, revision), 0x10, 0x01)
	frame := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...) //nolint:gosec // a few bytes
	url := "https://" + loopback(c.record.Ports[portEtcdClient]) + "/etcdserverpb.KV/Compact"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(frame))
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	answer, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("compact etcd: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil { // what comes after the body is known when it ends
		return fmt.Errorf("compact etcd: %w", err)
	}
	status, said := answer.Trailer.Get("Grpc-Status"), answer.Trailer.Get("Grpc-Message")
	if status == "" {
		status, said = answer.Header.Get("Grpc-Status"), answer.Header.Get("Grpc-Message")
	}
	if answer.StatusCode != http.StatusOK || status != "0" {
		return fmt.Errorf("compact etcd: %s, status %q: %s", answer.Status, status, said)
	}
	return nil
}
