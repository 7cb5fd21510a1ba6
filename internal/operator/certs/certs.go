// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs gives the webhooks their certificates.
//
// A [Keeper] makes them itself. The authority is in a Secret that all replicas share, and each of them signs a leaf of its
// own, which never leaves its memory. What an authority is replaced by is published in the webhook configurations before it
// is used, and what replaced it does not push it out while leaves of it may be around: at no moment is there a leaf that an
// API server would not trust. Every replica does the same work with optimistic locking, so none of them has to be leader.
//
// Its Secret needs no rights of its own: the operator has those that are needed for Secrets of any name, see
// internal/converge/sshkey.
//
// [Files] reads certificates that somebody else puts into a directory.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source is where the certificates of a server come from.
type Source interface {
	// Start keeps them up to date until the context ends. It runs on every replica.
	Start(ctx context.Context) error
	// GetCertificate is for a tls.Config.
	GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error)
	// Ready says what is missing before the API server can call.
	Ready(req *http.Request) error
	// Expiry is when the certificate and its authority end, zero where that is not known.
	Expiry() (leaf, authority time.Time)
	// Identity is whom a client has to trust and whom it has to expect, so that a server can call itself.
	Identity() (roots *x509.CertPool, serverName string)
}

// Options are what a Keeper is told.
type Options struct {
	// Secret is where the authority is kept.
	Secret client.ObjectKey
	// Service is what the API server calls webhooks through. Leaves are made out to it.
	Service client.ObjectKey
	// Validating and Mutating are names of webhook configurations, empty where there is none. All webhooks in them are
	// ours. A configuration that does not exist yet is waited for.
	Validating string
	Mutating   string
	// ClientURL is the scheme, host and port at which the API server finds the webhooks of an operator outside the
	// cluster. It replaces the Service in the configurations, and the Service replaces it where it is empty; leaves are made
	// out to its host as well. All replicas have the same.
	ClientURL string
	// AuthorityLife and LeafLife are how long certificates are valid. Both are replaced when two thirds have passed.
	AuthorityLife time.Duration
	LeafLife      time.Duration
	// Settle is how long API servers may take to learn that a webhook configuration changed.
	Settle time.Duration

	Clock clock.PassiveClock
	Log   logr.Logger
}

// policy is what the options say about time.
func (o Options) policy() (Policy, error) {
	p := Policy{AuthorityLife: o.AuthorityLife, LeafLife: o.LeafLife, Settle: o.Settle}
	if p.AuthorityLife <= 0 || p.LeafLife <= 0 || p.Settle <= 0 {
		return p, errors.New("how long certificates live and how long API servers take to learn of them has to be given")
	}
	if p.AuthorityLife/3 < p.Settle {
		return p, fmt.Errorf("certificate authorities that live for %s do not live three times as long as API servers take to learn of them (%s)",
			p.AuthorityLife, p.Settle)
	}
	p.Make = func(now time.Time) (Authority, error) { return newAuthority(now, p.AuthorityLife) }
	return p, nil
}

// hosts are who leaves are made out to, and the one of them that a client expects.
func (o Options) hosts() (all hosts, expected string, base *url.URL, err error) {
	if o.Service.Name != "" {
		expected = serviceHost(o.Service)
		all.dns = append(all.dns, expected)
	}
	if o.ClientURL != "" {
		base, err = url.Parse(o.ClientURL)
		if err != nil || base.Scheme != "https" || base.Hostname() == "" {
			return all, "", nil, fmt.Errorf("the URL of the webhooks, %q, is not https with a host", o.ClientURL)
		}
		expected = base.Hostname()
		if ip := net.ParseIP(expected); ip != nil {
			all.ips = append(all.ips, ip)
		} else {
			all.dns = append(all.dns, expected)
		}
	}
	if expected == "" {
		return all, "", nil, errors.New("certificates need a Service or a URL to be made out to")
	}
	return all, expected, base, nil
}

// serviceHost is how an API server calls a Service.
func serviceHost(service client.ObjectKey) string {
	return service.Name + "." + service.Namespace + ".svc"
}
