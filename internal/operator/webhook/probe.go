// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// pingPath is where the server answers itself.
const pingPath = "/ping"

// callInterval is the pause between attempts of a server to reach itself.
const callInterval = 100 * time.Millisecond

// callItself makes the server ready when it has answered itself, over TLS, as the API server would want to be answered.
func (s *Server) callItself(ctx context.Context, at net.Addr) {
	ticker := time.NewTicker(callInterval)
	defer ticker.Stop()
	for {
		err := s.call(ctx, at)
		if err == nil {
			s.age.CompareAndSwap(starting, serving)
			return
		}
		problem := err.Error()
		s.problem.Store(&problem)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *Server) call(ctx context.Context, at net.Addr) error {
	roots, name := s.options.Certificates.Identity()
	if _, err := s.options.Certificates.GetCertificate(&tls.ClientHelloInfo{ServerName: name}); err != nil {
		return err // what a client hears of it is less clear
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: s.options.MinTLS, RootCAs: roots, ServerName: name},
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+reachable(at)+pingPath, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answered %s", answer.Status)
	}
	return nil
}

// reachable is an address that can be called: one that stands for all of the machine's becomes its loopback.
func reachable(at net.Addr) string {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return at.String()
	}
	loopback := net.IPv6loopback
	if tcp.IP.To4() != nil {
		loopback = net.IPv4(127, 0, 0, 1)
	}
	return (&net.TCPAddr{IP: loopback, Port: tcp.Port}).String()
}
