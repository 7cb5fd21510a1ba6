// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// balancer stands for a Service: it hands new connections to replicas that say they are ready, one after the other, and
// leaves those that exist alone. There is no kube-proxy where tests run.
type balancer struct {
	address string

	mu       sync.Mutex
	replicas []*replica
	next     int
	wg       sync.WaitGroup
}

// replica is an operator and where its webhooks listen.
type replica struct {
	*harness.Process
	webhook string
	ready   bool
}

// readinessPeriod is how often the balancer asks. Until then it sends connections to a replica that is ending, as a Service
// does whose endpoints are behind.
const readinessPeriod = time.Second

func startBalancer(t *testing.T) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{address: listener.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	b.wg.Go(func() { b.ask(ctx) })
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
		_ = listener.Close()
		b.wg.Wait()
	})
	return b
}

func (b *balancer) add(r *replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = append(b.replicas, r)
}

// remove forgets a replica that has ended.
func (b *balancer) remove(r *replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = slices.DeleteFunc(b.replicas, func(x *replica) bool { return x == r })
}

func (b *balancer) ask(ctx context.Context) {
	for {
		b.mu.Lock()
		all := slices.Clone(b.replicas)
		b.mu.Unlock()
		for _, r := range all {
			ready := r.Ready()
			b.mu.Lock()
			r.ready = ready
			b.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readinessPeriod):
		}
	}
}

// pick returns the next replica that is ready, nil for none.
func (b *balancer) pick() *replica {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.replicas {
		b.next++
		if r := b.replicas[b.next%len(b.replicas)]; r.ready {
			return r
		}
	}
	return nil
}

func (b *balancer) forward(ctx context.Context, from net.Conn) {
	defer func() { _ = from.Close() }()
	r := b.pick()
	if r == nil {
		return
	}
	to, err := net.Dial("tcp", r.webhook)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
	defer stop()
	var both sync.WaitGroup
	pipe := func(into, out net.Conn) {
		_, _ = io.Copy(into, out)
		// One side has nothing more to say; the other may.
		if half, ok := into.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { pipe(to, from) })
	both.Go(func() { pipe(from, to) })
	both.Wait()
}
