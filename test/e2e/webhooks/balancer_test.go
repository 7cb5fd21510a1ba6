// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// balancer does what a Service does: each new connection goes to one of the replicas that are ready, and stays there.
type balancer struct {
	address string

	mu       sync.Mutex
	backends []backend
	next     int
	open     map[net.Conn]bool
}

type backend struct {
	address string
	ready   func() error
}

func newBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{address: listener.Addr().String(), open: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.serve(in) })
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Errorf("close the balancer: %v", err)
		}
		b.closeAll()
		serving.Wait()
	})
	return b
}

func (b *balancer) add(address string, ready func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backends = append(b.backends, backend{address, ready})
}

// pick is the next replica that is ready.
func (b *balancer) pick() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next++
		if c := b.backends[b.next%len(b.backends)]; c.ready() == nil {
			return c.address, nil
		}
	}
	return "", errors.New("no replica is ready")
}

// serve joins a connection with a replica, until either of them ends it.
func (b *balancer) serve(in net.Conn) {
	address, err := b.pick()
	if err != nil {
		_ = in.Close()
		return
	}
	out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		_ = in.Close()
		return
	}
	b.note(in, out)
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
	b.forget(in, out)
}

func (b *balancer) note(all ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range all {
		b.open[c] = true
	}
}

func (b *balancer) forget(all ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
		delete(b.open, c)
	}
}

func (b *balancer) closeAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.open {
		_ = c.Close()
	}
}
