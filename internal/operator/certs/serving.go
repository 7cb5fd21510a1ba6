// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// errNoLeaf is what everybody hears before there is anything to show.
var errNoLeaf = errors.New("there is no certificate for the webhooks yet")

// remember makes a state the one that leaves are signed by, and returns the leaf that is shown from now on.
func (k *Keeper) remember(s State, now time.Time) *leaf {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state = s
	k.refresh(now)
	return k.leaf
}

// renew replaces the leaf if it is time, and returns the one that is shown from now on.
func (k *Keeper) renew(now time.Time) *leaf {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh(now)
	return k.leaf
}

// refresh signs a new leaf where one is needed. Whoever calls holds the lock.
func (k *Keeper) refresh(now time.Time) {
	signing := k.state.in(Signing)
	if signing == nil || !k.needsLeaf(*signing, now) {
		return
	}
	fresh, err := issue(*signing, k.hosts, now, k.policy.LeafLife)
	if err != nil {
		if err.Error() != k.unsigned {
			k.options.Log.Error(err, "No certificate could be signed for the webhooks")
		}
		k.unsigned = err.Error()
		return
	}
	k.leaf, k.unsigned = fresh, ""
	k.options.Log.Info("Signed a certificate for the webhooks", "authority", fingerprint(fresh.issuer), "expires", fresh.expires)
}

// needsLeaf tells whether a leaf has to be signed now. One that works is not given up for one of an authority that some
// API server may not know yet.
func (k *Keeper) needsLeaf(signing Authority, now time.Time) bool {
	if k.leaf == nil || k.leaf.due(now) || !k.state.has(k.leaf.issuer) {
		return true
	}
	return k.leaf.issuer != signing.Certificate && k.policy.established(signing, now)
}

// GetCertificate returns the leaf. One that should have been replaced is replaced first: a process that was asleep meets
// its clients before it meets its own timers.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	now := k.now()
	k.mu.RLock()
	current := k.leaf
	k.mu.RUnlock()
	if current != nil && !current.due(now) {
		return current.certificate, nil
	}
	k.poke()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refresh(now)
	if k.leaf == nil {
		return nil, errNoLeaf
	}
	return k.leaf.certificate, nil
}

// Ready says what is missing before the API server can call. A configuration that does not exist is not: nobody calls
// through it.
func (k *Keeper) Ready(*http.Request) error {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.leaf == nil {
		return fmt.Errorf("%w: its authority could not be read from Secret %s, nor made", errNoLeaf, k.options.Secret)
	}
	if !k.now().Before(k.leaf.expires) {
		return fmt.Errorf("the certificate of the webhooks has expired, and could not be replaced: Secret %s cannot be read or written", k.options.Secret)
	}
	if !k.passed {
		return errors.New("the webhook configurations have not been looked at yet")
	}
	if len(k.unpublished) > 0 {
		return fmt.Errorf("the certificate authority or the address is not published yet in %s", strings.Join(k.unpublished, ", "))
	}
	if k.tooNew() {
		return errors.New("the certificate authority was published a moment ago; API servers may not know it yet")
	}
	return nil
}

// tooNew tells whether other replicas may still be trusted where this one is not. That is so only after an authority was
// lost: otherwise leaves are of an authority that is known everywhere, or there is no other than this.
func (k *Keeper) tooNew() bool {
	signing := k.state.in(Signing)
	return signing != nil && k.leaf.issuer == signing.Certificate && k.state.in(Retired) != nil && !k.policy.established(*signing, k.now())
}

// Expiry is when the leaf and the authority that signs end.
func (k *Keeper) Expiry() (leaf, authority time.Time) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.leaf != nil {
		leaf = k.leaf.expires
	}
	if signing := k.state.in(Signing); signing != nil {
		authority = signing.Expires
	}
	return leaf, authority
}

// Identity is what is published, and the host that the API server calls.
func (k *Keeper) Identity() (roots *x509.CertPool, serverName string) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle(k.state))
	return roots, k.expected
}
