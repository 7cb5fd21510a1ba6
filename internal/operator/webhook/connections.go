// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// surplusAfter is how long a connection is idle before it counts as one too many.
const surplusAfter = time.Second

// connections keeps clients of HTTP/1.1 from holding more connections than they use.
//
// A server that ends has to close idle connections, and what a client sends on one at that moment is lost: it is neither
// answered nor, because it is a POST, repeated. Clients take the connection they used last, so those of a burst lie idle
// below it for a minute and a half. Where there is one, the answer to a request closes its connection, and the next request
// takes the idle one instead of a new one. So only those are left that are in use all the time, and while the server drains
// each of them is closed by an answer, which is safe.
type connections struct {
	clock clock.PassiveClock

	mu  sync.Mutex
	all map[net.Conn]*connection
}

// connection is one connection. Clients keep those for one webhook apart from those for another.
type connection struct {
	client string
	path   string
	// idle is since when nothing was asked, zero while something is.
	idle time.Time
}

type connectionKey struct{}

func newConnections(c clock.PassiveClock) *connections {
	return &connections{clock: c, all: map[net.Conn]*connection{}}
}

// begin is for http.Server.ConnContext.
func (c *connections) begin(ctx context.Context, conn net.Conn) context.Context {
	client, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		client = conn.RemoteAddr().String()
	}
	known := &connection{client: client}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[conn] = known
	return context.WithValue(ctx, connectionKey{}, known)
}

// changed is for http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.all[conn]
	switch {
	case known == nil:
	case state == http.StateIdle:
		known.idle = c.clock.Now()
	case state == http.StateActive:
		known.idle = time.Time{}
	case state == http.StateClosed, state == http.StateHijacked:
		delete(c.all, conn)
	}
}

// hasSurplus notes what a request is for, and tells whether its client holds a connection for the same that it does not use.
func (c *connections) hasSurplus(r *http.Request) bool {
	mine, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return false
	}
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	mine.path = r.URL.Path
	for _, other := range c.all {
		if other != mine && other.client == mine.client && other.path == mine.path && !other.idle.IsZero() && now.Sub(other.idle) >= surplusAfter {
			return true
		}
	}
	return false
}
