// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// certificateLife is long enough for a cluster that someone keeps for months.
	certificateLife = 365 * 24 * time.Hour
	// renewBefore makes a kept cluster get new certificates before it can meet expired ones.
	renewBefore = 30 * 24 * time.Hour
)

// keyPair is a certificate and its key, both as PEM.
type keyPair struct {
	cert, key []byte
}

// authority signs certificates.
type authority struct {
	keyPair
	parsed *x509.Certificate
	signer crypto.Signer
}

// pki is everything the components need to trust each other.
//
// There are three authorities because each one opens a different door: cluster proves who a client of the API server
// is, etcd opens the database, which knows no users, and frontProxy lets an API server speak in a user's name.
type pki struct {
	dir        string
	cluster    *authority
	etcd       *authority
	frontProxy *authority
}

// Names of the files below the pki directory, without suffix.
const (
	clusterAuthority    = "ca"
	etcdAuthority       = "etcd-ca"
	frontProxyAuthority = "front-proxy-ca"
	servingPair         = "serving"
	etcdServerPair      = "etcd-server"
	etcdClientPair      = "etcd-client"
	frontProxyPair      = "front-proxy-client"
	serviceAccountPair  = "service-account"
)

func (p *pki) certFile(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p *pki) keyFile(name string) string  { return filepath.Join(p.dir, name+".key") }

// openPKI loads the authorities below dir, or makes new ones when there are none or they end soon, and issues what
// hangs on them. The key that signs service account tokens is kept in any case: tokens outlive certificates.
func openPKI(dir string, now time.Time) (*pki, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create certificate directory: %w", err)
	}
	p := &pki{dir: dir}
	for name, slot := range map[string]**authority{
		clusterAuthority: &p.cluster, etcdAuthority: &p.etcd, frontProxyAuthority: &p.frontProxy,
	} {
		a, err := p.openAuthority(name, now)
		if err != nil {
			return nil, fmt.Errorf("authority %s: %w", name, err)
		}
		*slot = a
	}
	if err := p.issueComponents(now); err != nil {
		return nil, err
	}
	return p, p.openServiceAccountKey()
}

func (p *pki) openAuthority(name string, now time.Time) (*authority, error) {
	a, err := loadAuthority(p.certFile(name), p.keyFile(name))
	if err == nil && now.Add(renewBefore).Before(a.parsed.NotAfter) {
		return a, nil
	}
	a, err = newAuthority("dynamo-local "+name, now)
	if err != nil {
		return nil, err
	}
	return a, p.write(name, a.keyPair)
}

// issueComponents makes the certificates of servers and of the API server as a client. They are made anew at each
// start: nothing remembers them.
func (p *pki) issueComponents(now time.Time) error {
	loopback := subject{hosts: []string{
		"localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", firstServiceAddress,
	}}
	for _, order := range []struct {
		file   string
		signer *authority
		subject
	}{
		{servingPair, p.cluster, loopback.named("kubernetes")},
		{etcdServerPair, p.etcd, loopback.named("etcd")},
		{etcdClientPair, p.etcd, subject{name: "kube-apiserver"}},
		{frontProxyPair, p.frontProxy, subject{name: "front-proxy-client"}},
	} {
		pair, err := order.signer.issue(order.subject, now)
		if err != nil {
			return fmt.Errorf("issue certificate %s: %w", order.file, err)
		}
		if err := p.write(order.file, pair); err != nil {
			return err
		}
	}
	return nil
}

func (p *pki) openServiceAccountKey() error {
	if _, err := os.Stat(p.keyFile(serviceAccountPair)); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make service account key: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode service account key: %w", err)
	}
	return p.write(serviceAccountPair, keyPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		key:  private,
	})
}

func (p *pki) write(name string, pair keyPair) error {
	if err := writeFileAtomically(p.keyFile(name), pair.key, 0o600); err != nil {
		return err
	}
	return writeFileAtomically(p.certFile(name), pair.cert, 0o644)
}

// etcdClientTLS returns what a client needs to talk to etcd.
func (p *pki) etcdClientTLS() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(p.certFile(etcdClientPair), p.keyFile(etcdClientPair))
	if err != nil {
		return nil, fmt.Errorf("load etcd client certificate: %w", err)
	}
	return &tls.Config{RootCAs: p.etcd.pool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// subject is what a certificate says about its holder. One with hosts is for a server, one without for a client.
type subject struct {
	name   string
	groups []string
	hosts  []string
}

func (s subject) named(name string) subject {
	s.name = name
	return s
}

func newAuthority(name string, now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	template, err := certificateTemplate(subject{name: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.ExtKeyUsage = nil // a limit here would hold for everything the authority signs
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign own certificate: %w", err)
	}
	return assembleAuthority(der, key)
}

func loadAuthority(certFile, keyFile string) (*authority, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("key cannot sign")
	}
	return assembleAuthority(pair.Certificate[0], signer)
}

func assembleAuthority(der []byte, signer crypto.Signer) (*authority, error) {
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	key, err := encodeKey(signer)
	if err != nil {
		return nil, err
	}
	return &authority{keyPair: keyPair{cert: encodeCertificate(der), key: key}, parsed: parsed, signer: signer}, nil
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.parsed)
	return pool
}

// issue signs a certificate for s.
func (a *authority) issue(s subject, now time.Time) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make key: %w", err)
	}
	template, err := certificateTemplate(s, now)
	if err != nil {
		return keyPair{}, err
	}
	if a.parsed.NotAfter.Before(template.NotAfter) {
		template.NotAfter = a.parsed.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.parsed, key.Public(), a.signer)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign: %w", err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encodeCertificate(der), key: private}, nil
}

func certificateTemplate(s subject, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore:    now.Add(-time.Minute), // tolerates a clock that is set back a little
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range s.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return template, nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
