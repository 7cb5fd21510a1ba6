// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout is how long a client may take to say what it wants.
	headerTimeout = 10 * time.Second
	// maxBody is the longest request that is read.
	maxBody = 16 << 20
)

// server is an HTTP server and how it ends.
type server struct {
	handler  http.Handler
	listener net.Listener
	grace    time.Duration
	// stopping is called when the context has ended, before requests are waited for.
	stopping func()
}

// serve answers until the context ends, and then until the last request has ended or the grace is over.
func serve(ctx context.Context, s server) error {
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(s.listener) }()
	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("serve %s: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	s.stopping()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.grace)
	defer cancel()
	if srv.Shutdown(grace) != nil {
		err = errors.Join(err, srv.Close()) // whoever still waits has had the time that was given
	}
	return err
}

// writeJSON answers with a value. There is nobody left to tell if that fails.
func writeJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

// readJSON reads the body of a request.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	return nil
}
