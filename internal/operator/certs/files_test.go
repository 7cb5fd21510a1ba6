// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	clocktesting "k8s.io/utils/clock/testing"
)

// mount is a directory as a kubelet makes it: files are links into a directory that is a link itself.
type mount struct {
	t    *testing.T
	path string
	swap int
}

func newMount(t *testing.T) *mount {
	t.Helper()
	m := &mount{t: t, path: t.TempDir()}
	for _, name := range []string{certificateFile, keyFile, authorityFile} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// put replaces all files at once.
func (m *mount) put(files map[string]string) {
	m.t.Helper()
	m.swap++
	target := fmt.Sprintf("..%d", m.swap)
	if err := os.Mkdir(filepath.Join(m.path, target), 0o700); err != nil {
		m.t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(m.path, target, name), []byte(content), 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	link := filepath.Join(m.path, "..tmp")
	if err := os.Symlink(target, link); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(link, filepath.Join(m.path, "..data")); err != nil {
		m.t.Fatal(err)
	}
}

// filesOf are files with a leaf that ends after a while.
func filesOf(t *testing.T, life time.Duration, to ...string) map[string]string {
	t.Helper()
	a, err := newAuthority(start, authorityLife)
	if err != nil {
		t.Fatal(err)
	}
	l, err := issue(a, hosts{dns: to}, start, life)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(l.certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		certificateFile: encode(certificateBlock, l.certificate.Certificate[0]), keyFile: encode("PRIVATE KEY", key), authorityFile: a.Certificate,
	}
}

func TestFilesAreReadAgainWhenAKubeletSwapsThem(t *testing.T) {
	t.Parallel()
	m := newMount(t)
	f := &Files{Directory: m.path, Clock: clocktesting.NewFakePassiveClock(start), Log: testr.New(t)}
	if _, err := f.GetCertificate(nil); err == nil || f.Ready(nil) == nil {
		t.Error("there is a certificate before there are files")
	}
	f.look()
	if err := f.Ready(nil); err == nil || !strings.Contains(err.Error(), certificateFile) {
		t.Errorf("the missing file is not named: %v", err)
	}
	for i, life := range []time.Duration{day, 2 * day} {
		m.put(filesOf(t, life, "*.system.svc"))
		f.look()
		certificate, err := f.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if leaf, authority := f.Expiry(); !leaf.Equal(start.Add(life)) || !authority.Equal(start.Add(authorityLife)) {
			t.Errorf("pair %d: the leaf ends at %s, its authority at %s", i, leaf, authority)
		}
		roots, name := f.Identity()
		if _, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: start}); err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
		if err := f.Ready(nil); err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
	}
}

func TestFilesThatDoNotFitChangeNothing(t *testing.T) {
	t.Parallel()
	m := newMount(t)
	f := &Files{Directory: m.path, Clock: clocktesting.NewFakePassiveClock(start), Log: testr.New(t)}
	m.put(filesOf(t, day, "a"))
	f.look()
	before, err := f.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	mixed := filesOf(t, day, "a")
	mixed[keyFile] = filesOf(t, day, "a")[keyFile]
	for _, files := range []map[string]string{mixed, {}, {certificateFile: "x", keyFile: "y"}} {
		m.put(files)
		f.look()
		if after, err := f.GetCertificate(nil); err != nil || after != before {
			t.Errorf("%v: the certificate changed (%v)", files, err)
		}
		if err := f.Ready(nil); err != nil {
			t.Errorf("what there is still works, but: %v", err)
		}
	}
}

func TestAnExpiredFileIsNotReady(t *testing.T) {
	t.Parallel()
	m := newMount(t)
	m.put(filesOf(t, day, "a"))
	f := &Files{Directory: m.path, Clock: clocktesting.NewFakePassiveClock(start.Add(day)), Log: testr.New(t)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Start(ctx); err != nil { // it looks once before it ends
		t.Fatal(err)
	}
	if err := f.Ready(nil); err == nil || !strings.Contains(err.Error(), "expired at 2026-01-02") {
		t.Errorf("got %v", err)
	}
}
