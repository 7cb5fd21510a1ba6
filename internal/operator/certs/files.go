// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// Names of files, as in a Secret of type kubernetes.io/tls.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
	authorityFile   = "ca.crt"
)

// lookInterval is how often files are looked at. A kubelet takes longer to bring new ones.
const lookInterval = 2 * time.Second

// Files reads certificates from a directory, again and again. The files may be there from the start or come later.
type Files struct {
	// Directory holds tls.crt and tls.key, and perhaps ca.crt.
	Directory string
	Clock     clock.PassiveClock
	Log       logr.Logger

	pair    atomic.Pointer[pair]
	problem atomic.Pointer[string]
}

var _ Source = &Files{}

// pair is what the files say.
type pair struct {
	content     [][]byte
	certificate *tls.Certificate
	authority   time.Time
}

// Start reads the files until the context ends.
func (f *Files) Start(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		f.look()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look reads the files once. Files that cannot be used change nothing: while they are being replaced, certificate and key
// may belong to different pairs for a moment.
func (f *Files) look() {
	now, err := f.read()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if last := f.problem.Swap(&problem); problem != "" && (last == nil || *last != problem) {
		f.Log.Error(err, "The certificate of the webhooks cannot be read", "directory", f.Directory)
	}
	before := f.pair.Load()
	if err != nil || (before != nil && sameContent(before.content, now.content)) {
		return
	}
	f.pair.Store(now)
	f.Log.Info("Read the certificate of the webhooks", "directory", f.Directory, "expires", now.certificate.Leaf.NotAfter)
}

func sameContent(a, b [][]byte) bool { return bytes.Equal(bytes.Join(a, nil), bytes.Join(b, nil)) }

func (f *Files) read() (*pair, error) {
	p := &pair{}
	for _, name := range []string{certificateFile, keyFile} {
		content, err := os.ReadFile(filepath.Join(f.Directory, name))
		if err != nil {
			return nil, fmt.Errorf("read the certificate of the webhooks: %w", err)
		}
		p.content = append(p.content, content)
	}
	certificate, err := tls.X509KeyPair(p.content[0], p.content[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s in %s: %w", certificateFile, keyFile, f.Directory, err)
	}
	p.certificate = &certificate
	// Not everybody who makes certificates says who signed them.
	if content, err := os.ReadFile(filepath.Join(f.Directory, authorityFile)); err == nil {
		p.content = append(p.content, content)
		for _, a := range authoritiesIn(content) {
			if a.Expires.After(p.authority) {
				p.authority = a.Expires
			}
		}
	}
	return p, nil
}

// GetCertificate returns what the files said last.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if p := f.pair.Load(); p != nil {
		return p.certificate, nil
	}
	return nil, errNoLeaf
}

// Ready says why there is no certificate that an API server could accept.
func (f *Files) Ready(*http.Request) error {
	p := f.pair.Load()
	if p == nil {
		if problem := f.problem.Load(); problem != nil {
			return fmt.Errorf("%w: %s", errNoLeaf, *problem)
		}
		return errNoLeaf
	}
	if end := p.certificate.Leaf.NotAfter; !f.Clock.Now().Before(end) {
		return fmt.Errorf("the certificate of the webhooks in %s has expired at %s", f.Directory, end.Format(time.RFC3339))
	}
	return nil
}

// Expiry is when the certificate ends, and the last of the authorities in ca.crt.
func (f *Files) Expiry() (leaf, authority time.Time) {
	p := f.pair.Load()
	if p == nil {
		return leaf, authority
	}
	return p.certificate.Leaf.NotAfter, p.authority
}

// Identity trusts the certificate as it is: who signed it is between its maker and the API server.
func (f *Files) Identity() (roots *x509.CertPool, serverName string) {
	roots = x509.NewCertPool()
	p := f.pair.Load()
	if p == nil {
		return roots, ""
	}
	leaf := p.certificate.Leaf
	roots.AddCert(leaf)
	switch {
	case len(leaf.DNSNames) > 0:
		return roots, strings.Replace(leaf.DNSNames[0], "*", "any", 1)
	case len(leaf.IPAddresses) > 0:
		return roots, leaf.IPAddresses[0].String()
	}
	return roots, ""
}
