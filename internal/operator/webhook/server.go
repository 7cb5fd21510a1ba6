// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook serves the rules of internal/admission to the API server. It judges nothing itself, with one exception:
// whether a requester may do what the operator would do on its behalf is a question to the API server.
package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
)

// Bounds of the server. What calls it is the API server, which is near, quick and sends one object.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	bodyTimeout     = 2 * time.Second
	writeTimeout    = 15 * time.Second
	longestHeader   = 64 << 10
	shutdownTimeout = 10 * time.Second

	// idleTimeout is longer than that of API servers, 90 seconds: who sends should be the one who hangs up.
	idleTimeout = 3 * time.Minute

	// largestBody holds an old and a new object of the three MiB that an API server accepts each, and what is around them.
	largestBody = 7 << 20

	// largeBody is where bodies begin of which only a few are in memory at once. Graphs are far smaller.
	largeBody       = 1 << 20
	largeConcurrent = 4
)

// Defaults of Options that nobody can configure. The others are in internal/operator/config.
const (
	DefaultTimeout     = 4 * time.Second
	DefaultConcurrency = 32
)

// Certificates are what the server shows, and how it can verify that itself.
type Certificates interface {
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	Identity() (roots *x509.CertPool, serverName string)
}

// Options are what a Server is told.
type Options struct {
	// Address is where to listen. A Listener takes its place.
	Address  string
	Listener net.Listener
	// Certificates are where certificates come from.
	Certificates Certificates
	// MinTLS is the lowest version of TLS that is spoken, 0 for 1.2.
	MinTLS uint16
	// HTTP2 offers HTTP/2.
	HTTP2 bool

	// Version is stamped on new graphs, unless it is empty.
	Version string
	// Restricted is true for an operator of one namespace.
	Restricted bool
	// ReplicaWriters are the users who may change replicas that an adapter owns, besides the planner of the same namespace.
	ReplicaWriters []string
	// InferencePools tells whether the cluster has them.
	InferencePools func() admission.Presence
	// Excluded tells whether another operator looks after a namespace, whose rules count there.
	Excluded func(namespace string) bool
	// MayCreate tells whether a user may create graphs in a namespace. Without it nobody may, in any but the request's own.
	MayCreate func(ctx context.Context, user authenticationv1.UserInfo, namespace string) (bool, error)
	// Observe hears of every judgement.
	Observe func(Judgement)

	// Drain is how long the server goes on serving after it was told to end.
	Drain time.Duration
	// Timeout bounds one request. It should be shorter than the time that API servers wait.
	Timeout time.Duration
	// Concurrency is how many requests are worked on at once.
	Concurrency int

	Clock clock.PassiveClock
	Log   logr.Logger
}

// Judgement is one object that was judged: whether it was allowed or denied, and the reasons of a denial.
type Judgement struct {
	Kind, Operation string
	Result          string
	// Reasons are names of rules, or one of Reasons().
	Reasons []string
	Took    time.Duration
}

// The ages of a server.
const (
	starting int32 = iota
	serving
	draining
)

// Server serves the webhooks.
type Server struct {
	options Options
	slots   chan struct{}
	large   chan struct{}
	age     atomic.Int32
	// connections are those that clients hold.
	connections *connections
	// problem is why the server could not call itself.
	problem atomic.Pointer[string]
}

// New returns a server that has not started yet.
func New(o Options) (*Server, error) {
	if o.Certificates == nil {
		return nil, errors.New("a webhook server needs certificates")
	}
	if o.Address == "" && o.Listener == nil {
		return nil, errors.New("a webhook server needs an address to listen on")
	}
	o.MinTLS = cmp.Or(o.MinTLS, tls.VersionTLS12)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.InferencePools == nil {
		o.InferencePools = func() admission.Presence { return admission.PresenceUnknown }
	}
	if o.Excluded == nil {
		o.Excluded = func(string) bool { return false }
	}
	if o.MayCreate == nil {
		o.MayCreate = func(context.Context, authenticationv1.UserInfo, string) (bool, error) { return false, nil }
	}
	if o.Observe == nil {
		o.Observe = func(Judgement) {}
	}
	return &Server{options: o, slots: make(chan struct{}, o.Concurrency), large: make(chan struct{}, largeConcurrent), connections: newConnections(o.Clock)}, nil
}

// Start serves until the context ends, and then for as long as it takes clients to turn to somebody else.
func (s *Server) Start(ctx context.Context) error {
	listener := s.options.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.options.Address); err != nil {
			return fmt.Errorf("listen for admission requests: %w", err)
		}
	}
	server := s.server()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	s.options.Log.Info("Serving webhooks", "address", listener.Addr().String())
	looking, stop := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		s.callItself(looking, listener.Addr())
	}()
	defer func() {
		stop()
		<-looked
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks: %w", err)
	case <-ctx.Done():
	}
	return s.drain(server, ended)
}

// drain goes on serving while clients learn that they should go elsewhere, and then finishes what is under way.
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
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("finish admission requests: %w", errors.Join(err, server.Close()))
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	s.options.Log.Info("Webhooks ended")
	return nil
}

// Ready is for the readiness probe. It says nothing about certificates that the server itself cannot see.
func (s *Server) Ready(*http.Request) error {
	switch s.age.Load() {
	case draining:
		return errors.New("the webhook server is being stopped")
	case serving:
		return nil
	}
	if problem := s.problem.Load(); problem != nil {
		return fmt.Errorf("the webhook server cannot be reached by itself: %s", *problem)
	}
	return errors.New("the webhook server has not started yet")
}

// server is the HTTP server around the handler. Its requests outlive the context of the process, which ends before they do.
func (s *Server) server() *http.Server {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(s.options.HTTP2)
	return &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		TLSConfig:         &tls.Config{MinVersion: s.options.MinTLS, GetCertificate: s.options.Certificates.GetCertificate},
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    longestHeader,
		ConnContext:       s.connections.begin,
		ConnState:         s.connections.changed,
		// Handshakes that others break off are their business.
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.options.Log.V(1)), slog.LevelInfo),
	}
}
