// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// backdating lets certificates count on machines whose clock is late.
const backdating = time.Hour

// Blocks of PEM.
const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "EC PRIVATE KEY"
)

// newAuthority makes an authority that signs itself.
func newAuthority(now time.Time, life time.Duration) (Authority, error) {
	key, serial, err := material()
	if err != nil {
		return Authority{}, err
	}
	now = now.UTC().Truncate(time.Second) // what a certificate can say
	template := &x509.Certificate{
		SerialNumber: serial,
		// Two authorities never have the same name: verifiers find the issuer by it.
		Subject:               pkix.Name{CommonName: "dynamo-operator webhooks " + serial.Text(36)[:8]},
		NotBefore:             now.Add(-backdating),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, fmt.Errorf("sign a certificate authority: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Authority{}, fmt.Errorf("encode the key of a certificate authority: %w", err)
	}
	return Authority{
		Certificate: encode(certificateBlock, der), Key: encode(keyBlock, private), Created: now, Expires: template.NotAfter,
	}, nil
}

// material is what every certificate needs: a key and a number.
func material() (*ecdsa.PrivateKey, *big.Int, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate a key: %w", err)
	}
	// One bit is always set, so that the number is never short.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("draw a serial number: %w", err)
	}
	return key, serial.SetBit(serial, 120, 1), nil
}

func encode(block string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}))
}

// hosts are who a leaf is made out to.
type hosts struct {
	dns []string
	ips []net.IP
}

// leaf is a certificate that a server shows, and when it was and will be replaced.
type leaf struct {
	certificate *tls.Certificate
	// issuer is the certificate of the authority that signed it.
	issuer  string
	starts  time.Time
	renew   time.Time
	expires time.Time
}

// due tells whether a leaf has to be replaced. A clock that was put back counts as well as one that went on while the
// process stood still.
func (l *leaf) due(now time.Time) bool { return !now.Before(l.renew) || now.Before(l.starts) }

// issue signs a leaf. It never outlives its authority.
func issue(a Authority, to hosts, now time.Time, life time.Duration) (*leaf, error) {
	signer, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key))
	if err != nil {
		return nil, fmt.Errorf("read the certificate authority %s: %w", fingerprint(a.Certificate), err)
	}
	key, serial, err := material()
	if err != nil {
		return nil, err
	}
	expires := now.Add(life).UTC().Truncate(time.Second)
	if expires.After(a.Expires) {
		expires = a.Expires
	}
	if !now.Before(expires) {
		return nil, fmt.Errorf("the certificate authority %s has expired", fingerprint(a.Certificate))
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "dynamo-operator"},
		NotBefore:    now.Add(-backdating).UTC(),
		NotAfter:     expires,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     to.dns,
		IPAddresses:  to.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.Leaf, key.Public(), signer.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read a certificate just signed: %w", err)
	}
	return &leaf{
		certificate: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed},
		issuer:      a.Certificate,
		starts:      parsed.NotBefore,
		renew:       now.Add(expires.Sub(now) * 2 / 3),
		expires:     expires,
	}, nil
}

// readAuthority reads the certificate of an authority back.
func readAuthority(certificate string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(certificate))
	if block == nil || block.Type != certificateBlock || len(rest) > 0 {
		return nil, errors.New("not exactly one certificate in PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	if !c.IsCA {
		return nil, errors.New("not a certificate of an authority")
	}
	return c, nil
}

// authoritiesIn are the authorities of a bundle. What else is in there is passed over.
func authoritiesIn(bundle []byte) []Authority {
	var found []Authority
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return found
		}
		certificate := encode(certificateBlock, block.Bytes)
		if c, err := readAuthority(certificate); block.Type == certificateBlock && err == nil {
			found = append(found, Authority{Certificate: certificate, Expires: c.NotAfter})
		}
	}
}

// bundle is what is published of a state.
func bundle(s State) []byte {
	var all []byte
	for _, a := range s.Authorities {
		all = append(all, a.Certificate...)
	}
	return all
}

// fingerprint is how a certificate is called in logs.
func fingerprint(certificate string) string {
	block, _ := pem.Decode([]byte(certificate))
	if block == nil {
		return "?"
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:4])
}
