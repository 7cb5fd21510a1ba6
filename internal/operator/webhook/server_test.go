// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// fixedCertificates show one certificate, or none while they are locked.
type fixedCertificates struct {
	certificate tls.Certificate
	name        string

	mu      sync.Mutex
	missing bool
}

func newCertificates(t testing.TB) *fixedCertificates {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"hooks.system.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &fixedCertificates{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, name: template.DNSNames[0]}
}

func (c *fixedCertificates) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing {
		return nil, errors.New("not yet")
	}
	return &c.certificate, nil
}

func (c *fixedCertificates) lose(missing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = missing
}

func (c *fixedCertificates) Identity() (*x509.CertPool, string) {
	roots := x509.NewCertPool()
	roots.AddCert(c.certificate.Leaf)
	return roots, c.name
}

// running is a server that listens.
type running struct {
	*Server

	address string
	certs   *fixedCertificates
	stop    context.CancelFunc
	ended   chan error
}

// run starts a server and ends it with the test.
func run(t *testing.T, change func(*Options)) *running {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &running{address: listener.Addr().String(), ended: make(chan error, 1)}
	r.Server, _ = newServer(t, func(o *Options) {
		o.Listener, o.Drain = listener, 200*time.Millisecond
		if change != nil {
			change(o)
		}
	})
	r.certs, _ = r.options.Certificates.(*fixedCertificates)
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-r.ended; err != nil {
			t.Errorf("the server ended with: %v", err)
		}
	})
	return r
}

// within asks until an answer fits.
func within(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("%s did not happen", what)
		case <-ticker.C:
		}
	}
}

// client trusts the server and keeps its connections.
func (r *running) client(t *testing.T, change func(*http.Transport)) *http.Client {
	t.Helper()
	roots, name := r.certs.Identity()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 32}
	if change != nil {
		change(transport)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// review posts one and returns the answer after its body was read, so that the connection can be used again.
func (r *running) review(ctx context.Context, api *http.Client) (*http.Response, error) {
	body, err := json.Marshal(reviewOf(v1alpha1.KindDynamoGraphDeployment, admissionv1.Create, nil, badGraph()))
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.address+graphPath, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := api.Do(request)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer, errors.Join(err, answer.Body.Close())
}

func TestAServerIsReadyWhenItHasAnsweredItself(t *testing.T) {
	t.Parallel()
	unstarted, _ := newServer(t, nil)
	if err := unstarted.Ready(nil); err == nil {
		t.Error("ready before it was started")
	}
	r := run(t, func(o *Options) {
		c := newCertificates(t)
		c.missing = true
		o.Certificates = c
	})
	within(t, "a look at itself", func() bool {
		err := r.Ready(nil)
		return err != nil && strings.Contains(err.Error(), "not yet")
	})
	r.certs.lose(false)
	within(t, "readiness", func() bool { return r.Ready(nil) == nil })
}

func TestAServerThatNobodyWouldTrustIsNotReady(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *Options) {
		c := newCertificates(t)
		c.name = "somebody.else.svc"
		o.Certificates = c
	})
	within(t, "a look at itself", func() bool {
		err := r.Ready(nil)
		return err != nil && strings.Contains(err.Error(), "somebody.else.svc")
	})
}

func TestAStopLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, func(o *Options) { o.HTTP2, o.Drain = modern, 5*time.Second })
			within(t, "readiness", func() bool { return r.Ready(nil) == nil })
			api := r.client(t, func(tr *http.Transport) { tr.ForceAttemptHTTP2 = true })
			var clients sync.WaitGroup
			var count atomic.Int32
			enough := make(chan struct{})
			for range 4 {
				clients.Go(func() {
					for open := true; open; {
						answer, err := r.review(t.Context(), api)
						if err != nil || answer.Proto != name || answer.StatusCode != http.StatusOK {
							t.Errorf("a request was lost: %+v, %v", answer, err)
							return
						}
						count.Add(1)
						select {
						case <-enough:
							open = false
						default:
						}
					}
				})
			}
			more := func() {
				before := count.Load()
				within(t, "some requests", func() bool { return count.Load() > before+20 })
			}
			more()
			r.stop()
			within(t, "draining", func() bool { return r.Ready(nil) != nil })
			more() // clients come as before
			close(enough)
			clients.Wait()
			err := <-r.ended
			r.ended <- err
			if _, err := r.review(t.Context(), api); err == nil {
				t.Error("it answers after its end")
			}
		})
	}
}

func TestClientsKeepAsManyConnectionsAsTheyUse(t *testing.T) {
	t.Parallel()
	const burst = 5
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	var entered sync.WaitGroup
	entered.Add(burst)
	release := make(chan struct{})
	var first atomic.Int32
	r := run(t, func(o *Options) {
		o.Clock = now
		o.Excluded = func(string) bool {
			if first.Add(1) <= burst {
				entered.Done()
				<-release
			}
			return true
		}
	})
	within(t, "readiness", func() bool { return r.Ready(nil) == nil })
	api := r.client(t, nil)
	var answered sync.WaitGroup
	for range burst {
		answered.Go(func() {
			if _, err := r.review(t.Context(), api); err != nil {
				t.Error(err)
			}
		})
	}
	entered.Wait()
	close(release)
	answered.Wait()
	held := func() (idle int) {
		r.connections.mu.Lock()
		defer r.connections.mu.Unlock()
		for _, c := range r.connections.all {
			if c.path != "" && c.path != pingPath && !c.idle.IsZero() {
				idle++
			}
		}
		return idle
	}
	within(t, "all connections idle", func() bool { return held() == burst })
	now.SetTime(now.Now().Add(2 * surplusAfter))
	for i := range burst {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				t.Errorf("request %d needed a new connection", i)
			}
		}})
		if _, err := r.review(ctx, api); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "one connection", func() bool { return held() == 1 })
}

func TestASlowRequestIsFinishedBeforeTheEnd(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	r := run(t, func(o *Options) {
		o.Excluded = func(string) bool {
			close(entered)
			<-release
			return true
		}
	})
	within(t, "readiness", func() bool { return r.Ready(nil) == nil })
	answered := make(chan error, 1)
	go func() {
		_, err := r.review(t.Context(), r.client(t, nil))
		answered <- err
	}()
	<-entered
	r.stop()
	within(t, "draining", func() bool { return r.age.Load() == draining })
	time.AfterFunc(2*r.options.Drain, func() { close(release) })
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestHTTP2AndOldTLSAreSpokenOnlyWhereAllowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		client func(*http.Transport)
		want   string
	}{
		"HTTP/1.1 by default":  {nil, func(tr *http.Transport) { tr.ForceAttemptHTTP2 = true }, "HTTP/1.1"},
		"HTTP/2 where allowed": {func(o *Options) { o.HTTP2 = true }, func(tr *http.Transport) { tr.ForceAttemptHTTP2 = true }, "HTTP/2.0"},
		"TLS 1.2 by default":   {nil, func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 }, "HTTP/1.1"},
		"no TLS 1.1": {nil, func(tr *http.Transport) {
			tr.TLSClientConfig.MinVersion, tr.TLSClientConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}, ""},
		"no TLS 1.2 where 1.3 is wanted": {
			func(o *Options) { o.MinTLS = tls.VersionTLS13 }, func(tr *http.Transport) { tr.TLSClientConfig.MaxVersion = tls.VersionTLS12 }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, c.change)
			within(t, "readiness", func() bool { return r.Ready(nil) == nil })
			answer, err := r.review(t.Context(), r.client(t, c.client))
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), "protocol version") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || answer.Proto != c.want || answer.StatusCode != http.StatusOK {
				t.Errorf("got %+v, %v", answer, err)
			}
		})
	}
}

func TestOnlySoManyRequestsAreWorkedOnAtOnce(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 8), make(chan struct{})
	r := run(t, func(o *Options) {
		o.Concurrency, o.Timeout = 2, time.Second
		o.Excluded = func(string) bool {
			entered <- struct{}{}
			<-release
			return true
		}
	})
	within(t, "readiness", func() bool { return r.Ready(nil) == nil })
	api := r.client(t, nil)
	var inside sync.WaitGroup
	for range 2 {
		inside.Go(func() {
			if answer, err := r.review(t.Context(), api); err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("got %+v, %v", answer, err)
			}
		})
		<-entered
	}
	answer, err := r.review(t.Context(), api)
	if err != nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("got %+v, %v", answer, err)
	}
	close(release)
	inside.Wait()
	if answer, err := r.review(t.Context(), api); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("after the rush: %+v, %v", answer, err)
	}
}

func TestAServerThatCannotListenSaysSo(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s, _ := newServer(t, func(o *Options) { o.Address = taken.Addr().String() })
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listen for admission requests") {
		t.Errorf("got %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a server without certificates was made")
	}
	if _, err := New(Options{Certificates: newCertificates(t)}); err == nil {
		t.Error("a server without an address was made")
	}
}

func TestCallersThatHoldBackTheirBodyAreInNobodysWay(t *testing.T) {
	t.Parallel()
	r := run(t, func(o *Options) { o.Concurrency = 2 })
	within(t, "readiness", func() bool { return r.Ready(nil) == nil })
	api := r.client(t, nil)
	var held sync.WaitGroup
	t.Cleanup(held.Wait) // after all that is closed below
	for range 8 {
		body, sender := io.Pipe()
		held.Go(func() { _, _ = sender.Write([]byte("{")) })
		t.Cleanup(func() { _ = sender.Close() })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.address+Paths()[0], body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = 1000
		held.Go(func() {
			answer, err := api.Do(req)
			if err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	if answer, err := r.review(t.Context(), api); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("an honest caller got %+v, %v", answer, err)
	}
}
