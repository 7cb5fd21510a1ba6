// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// Balancer stands for a Service: each new connection goes to one of the replicas that are ready, one after the other, and stays
// there. There is no kube-proxy where tests run.
type Balancer struct {
	// Address is where it listens.
	Address string

	lag  time.Duration
	mu   sync.Mutex
	next int
	all  []*backend
	wg   sync.WaitGroup
}

// backend is a replica, and what is known of it.
type backend struct {
	address string
	ready   func() error

	asked time.Time
	said  error
}

// StartBalancer starts a balancer that ends with the test. It asks replicas whether they are ready, but not again before lag has
// passed: until then it sends connections to one that is ending, as a Service does whose endpoints are behind.
func StartBalancer(t testing.TB, lag time.Duration) *Balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &Balancer{Address: listener.Addr().String(), lag: lag}
	ctx, cancel := context.WithCancel(context.Background())
	b.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.forward(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := listener.Close(); err != nil {
			t.Errorf("close the balancer: %v", err)
		}
		b.wg.Wait()
	})
	return b
}

// Add has connections go to a replica while it is ready.
func (b *Balancer) Add(address string, ready func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, &backend{address: address, ready: ready})
}

// Remove forgets a replica that has ended.
func (b *Balancer) Remove(address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(r *backend) bool { return r.address == address })
}

// AwaitAll waits until the balancer knows of all replicas that they are ready.
func (b *Balancer) AwaitAll(t testing.TB) {
	t.Helper()
	Eventually(t, readyTimeout, "all replicas ready", func() (bool, string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, r := range b.all {
			if err := b.ask(r); err != nil {
				return false, fmt.Sprintf("%s: %v", r.address, err)
			}
		}
		return true, ""
	})
}

// ask tells whether a replica is ready, as far as is known.
func (b *Balancer) ask(r *backend) error {
	if r.asked.IsZero() || time.Since(r.asked) >= b.lag {
		r.said, r.asked = r.ready(), time.Now()
	}
	return r.said
}

// pick is the next replica that is ready.
func (b *Balancer) pick() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.all {
		b.next++
		if r := b.all[b.next%len(b.all)]; b.ask(r) == nil {
			return r.address, nil
		}
	}
	return "", errors.New("no replica is ready")
}

// forward joins a connection with a replica, until either of them ends it.
func (b *Balancer) forward(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	address, err := b.pick()
	if err != nil {
		return
	}
	to, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			// One side has nothing more to say; the other may.
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
