// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"
)

func TestServingCertificateIsTrustedForThisMachineOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	keys := mustOpenPKI(t, t.TempDir(), now)
	serving := leaf(t, keys, servingPair)
	for _, host := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc"} {
		if _, err := serving.Verify(x509.VerifyOptions{Roots: keys.cluster.pool(), DNSName: host, CurrentTime: now}); err != nil {
			t.Errorf("certificate is not good for %s: %v", host, err)
		}
	}
	if err := serving.VerifyHostname("example.test"); err == nil {
		t.Error("certificate is good for any host")
	}
}

func TestCertificateOfAUserDoesNotOpenEtcd(t *testing.T) {
	t.Parallel()
	now := time.Now()
	keys := mustOpenPKI(t, t.TempDir(), now)
	pair, err := keys.cluster.issue(subject{name: "admin", groups: []string{"system:masters"}}, now)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		pool    *x509.CertPool
		trusted bool
	}{
		"API server": {pool: keys.cluster.pool(), trusted: true},
		"etcd":       {pool: keys.etcd.pool()},
		"aggregator": {pool: keys.frontProxy.pool()},
	} {
		_, err := loaded.Leaf.Verify(x509.VerifyOptions{
			Roots: tc.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		})
		if (err == nil) != tc.trusted {
			t.Errorf("%s: %v, want trusted %t", name, err, tc.trusted)
		}
	}
}

func TestAuthoritiesSurviveARestartUntilTheyAreDueForRenewal(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	first := mustOpenPKI(t, dir, now)
	accountKey := mustRead(t, first.keyFile(serviceAccountPair))

	second := mustOpenPKI(t, dir, now.Add(time.Hour))
	if !bytes.Equal(first.cluster.cert, second.cluster.cert) {
		t.Error("a restart within the life of the authority made a new one")
	}
	late := mustOpenPKI(t, dir, now.Add(certificateLife-renewBefore+time.Hour))
	if bytes.Equal(first.cluster.cert, late.cluster.cert) {
		t.Error("an authority that ends soon was kept")
	}
	if !bytes.Equal(accountKey, mustRead(t, late.keyFile(serviceAccountPair))) {
		t.Error("the key of service account tokens changed, which makes every token invalid")
	}
}

func mustOpenPKI(t *testing.T, dir string, now time.Time) *pki {
	t.Helper()
	keys, err := openPKI(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func leaf(t *testing.T, keys *pki, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(keys.certFile(name), keys.keyFile(name))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}
