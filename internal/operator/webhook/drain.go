// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// releaseInterval is the pause between looks at connections that still have something to say.
const releaseInterval = 10 * time.Millisecond

// drain lets clients go before it closes what they hold. Every answer closes its connection; what is idle after the period
// is closed unless a request is on its way, which http.Server would not notice: a client does not repeat it.
func (s *Server) drain(server *http.Server, ended <-chan error) error {
	s.age.Store(draining)
	s.options.Log.Info("Draining webhooks", "period", s.options.Drain)
	timer := time.NewTimer(s.options.Drain)
	defer timer.Stop()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks: %w", err)
	case <-timer.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	s.release(ctx)
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finish admission requests: %w", errors.Join(err, server.Close()))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	s.options.Log.Info("Webhooks ended")
	return nil
}

// release closes idle connections until there are none.
func (s *Server) release(ctx context.Context) {
	ticker := time.NewTicker(releaseInterval)
	defer ticker.Stop()
	for !s.idle.release() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// idleConnections are those on which no request is under way.
type idleConnections struct {
	mu  sync.Mutex
	all map[net.Conn]bool
}

// changed is for http.Server.ConnState. Connections of HTTP/2 are told by the server itself not to begin anything new.
func (i *idleConnections) changed(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if secure, ok := c.(*tls.Conn); state == http.StateIdle && ok && secure.ConnectionState().NegotiatedProtocol != "h2" {
		i.all[c] = true
		return
	}
	delete(i.all, c)
}

// release closes all connections that are silent, and tells whether these were all.
func (i *idleConnections) release() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for c := range i.all {
		if waiting(c) {
			continue
		}
		_ = c.Close()
		delete(i.all, c)
	}
	return len(i.all) == 0
}

// waiting tells whether a connection has something to read that nobody has read yet.
func waiting(c net.Conn) bool {
	secure, ok := c.(*tls.Conn)
	if !ok {
		return false
	}
	raw, ok := secure.NetConn().(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	some := false
	// Control takes no lock, in contrast to Read, which the server holds while it waits.
	err = socket.Control(func(descriptor uintptr) {
		n, _, err := syscall.Recvfrom(int(descriptor), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		some = err == nil && n > 0
	})
	return err == nil && some
}
