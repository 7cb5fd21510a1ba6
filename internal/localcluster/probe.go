// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// probeInterval is short because every test package waits for it at least once.
	probeInterval = 20 * time.Millisecond
	// probeTimeout bounds one question; a healthy component answers in milliseconds.
	probeTimeout = 2 * time.Second
	// readyTimeout bounds the start of one component on a slow, busy machine.
	readyTimeout = 2 * time.Minute
	// lastWordsLines is how much of a dead component's log is shown.
	lastWordsLines = 15
)

// Kinds of trust a probe needs.
const (
	trustCluster = "cluster"
	trustEtcd    = "etcd"
)

// Probe says how to ask a component whether it is well.
type Probe struct {
	URL string `json:"url,omitempty"`
	// Trust names the authority that signed the component's certificate; empty means plain HTTP.
	Trust string `json:"trust,omitempty"`
}

// prober asks components about their health.
// The question to the API server is put anonymously: it is answered only after the default roles exist, which is what
// every client has to wait for anyway.
type prober struct {
	plain, cluster, etcd *http.Client
}

func newProber(p *pki) (*prober, error) {
	etcd, err := p.etcdClientTLS()
	if err != nil {
		return nil, err
	}
	client := func(config *tls.Config) *http.Client {
		return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	}
	return &prober{
		plain:   client(nil),
		cluster: client(&tls.Config{RootCAs: p.cluster.pool(), MinVersion: tls.VersionTLS12}),
		etcd:    client(etcd),
	}, nil
}

// check returns nil when the component behind the probe says it is well. A component without a probe is.
func (p *prober) check(ctx context.Context, probe Probe) error {
	if probe.URL == "" {
		return nil
	}
	status, err := p.ask(ctx, probe)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answered %d %s", probe.URL, status, http.StatusText(status))
	}
	return nil
}

// ask returns the status that the address of the probe answers with.
func (p *prober) ask(ctx context.Context, probe Probe) (int, error) {
	client := p.plain
	switch probe.Trust {
	case trustCluster:
		client = p.cluster
	case trustEtcd:
		client = p.etcd
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, probe.URL, nil)
	if err != nil {
		return 0, fmt.Errorf("probe %s: %w", probe.URL, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	if err := response.Body.Close(); err != nil {
		return 0, fmt.Errorf("probe %s: %w", probe.URL, err)
	}
	return response.StatusCode, nil
}

// serves reports whether something answers at the address of the probe, with whatever status except "not found": a
// webhook refuses a question that is not an admission review.
func (p *prober) serves(ctx context.Context, probe Probe) bool {
	status, err := p.ask(ctx, probe)
	return err == nil && status != http.StatusNotFound
}

// await returns when the process is well, and fails when it ends first or takes too long. One without a probe is well at once,
// however soon it ends: whoever starts it looks after that.
func (p *prober) await(ctx context.Context, proc *process, probe Probe) error {
	if probe.URL == "" {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout,
		fmt.Errorf("%s was not ready within %s", proc.name, readyTimeout))
	defer cancel()
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	var last error
	for {
		select {
		case <-proc.ended:
			return deathNotice(proc)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-ticker.C:
		}
		if last = p.check(ctx, probe); last == nil {
			return nil
		}
	}
}

// deathNotice explains why a process ended by what it logged last.
func deathNotice(proc *process) error {
	words := proc.lastWords(lastWordsLines)
	err := fmt.Errorf("%s ended (%s); its log %s ends with:\n%s", proc.name, proc.verdict(), proc.logPath, words)
	if strings.Contains(words, "address already in use") {
		return errors.Join(errPortClash, err)
	}
	return err
}
