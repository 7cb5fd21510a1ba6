// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/webhook"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// issuer stands for cert-manager, or for the administrator: an authority outside of the operator.
type issuer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.certificate, i.key = i.issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority of the test"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return i
}

// issue signs a certificate, with itself if there is no authority yet.
func (i *issuer) issue(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.serial++
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(i.serial), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	parent, signer := i.certificate, i.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// mount puts a certificate into a directory as a kubelet does with a Secret: a new directory, and a link that is moved to it
// in one step.
func (i *issuer) mount(t *testing.T, directory string) {
	t.Helper()
	leaf, key := i.issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(directory, fmt.Sprintf("..2026_%d", i.serial))
	if err := os.Mkdir(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"tls.crt": encoded("CERTIFICATE", leaf.Raw), "tls.key": encoded("EC PRIVATE KEY", der), "ca.crt": encoded("CERTIFICATE", i.certificate.Raw),
	} {
		if err := os.WriteFile(filepath.Join(fresh, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(directory, name)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join("..data", name), link); err != nil {
			t.Fatal(err)
		}
	}
	moved := filepath.Join(directory, "..data_tmp")
	if err := os.Symlink(filepath.Base(fresh), moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(moved, filepath.Join(directory, "..data")); err != nil {
		t.Fatal(err)
	}
}

// TestWebhooksOfOneNamespaceWithMountedCertificates has an administrator register the webhooks of an operator that has rights
// in one namespace only, and certificates that are replaced under load.
func TestWebhooksOfOneNamespaceWithMountedCertificates(t *testing.T) {
	ns := harness.Namespace(t)
	authority, directory, address := newIssuer(t), t.TempDir(), harness.UnusedAddress(t)
	authority.mount(t, directory)
	c := register(t, authority, address, ns, &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}})
	p := startMounted(t, ns, address, directory)
	r := &harness.Replica{Process: p, Webhook: address}
	bad := frontend(ns, "bad")
	bad.Spec.PVCs = []v1alpha1.PVC{{Create: new(false)}}
	harness.Eventually(t, time.Minute, "a refusal by the webhook", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), bad.DeepCopy())
		return err != nil && strings.Contains(err.Error(), "spec.pvcs[0].name"), fmt.Sprint(err)
	})
	l := harness.StartDryRuns(t, ns, rate)
	for range 2 {
		before := leaf(t, r).SerialNumber
		authority.mount(t, directory)
		harness.Eventually(t, time.Minute, "the new certificate", func() (bool, string) {
			return leaf(t, r).SerialNumber.Cmp(before) != 0, "still the old one"
		})
	}
	l.Stop("mounted certificates were replaced")
	if err := harness.Client(t).Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// register has the API server ask somebody about the namespaces that are selected.
func register(t *testing.T, authority *issuer, address, name string, which *metav1.LabelSelector) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	c, err := webhook.Validating()
	if err != nil {
		t.Fatal(err)
	}
	c.Name = "mounted-" + name
	for i := range c.Webhooks {
		w := &c.Webhooks[i]
		w.ClientConfig.URL = new("https://" + address + *w.ClientConfig.Service.Path)
		w.ClientConfig.Service, w.ClientConfig.CABundle = nil, encoded("CERTIFICATE", authority.certificate.Raw)
		w.NamespaceSelector = which
	}
	if err := harness.Client(t).Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(harness.Client(t).Delete(context.WithoutCancel(t.Context()), c)); err != nil {
			t.Errorf("take %s away: %v", c.Name, err)
		}
	})
	return c
}

// startMounted starts an operator of one namespace with certificates from a directory.
func startMounted(t *testing.T, ns, address, directory string) *harness.Process {
	t.Helper()
	return harness.StartProcess(t, harness.ProcessOptions{User: "operator-" + ns, Namespace: ns, Flags: []string{"--config=" + configFile(t, fmt.Sprintf(
		"namespaceScope: {disabled: true}\nwebhooks: {enabled: true, bindAddress: 127.0.0.1, port: %d, certificates: {source: files, directory: %s}}\n",
		port(t, address), directory))}})
}

// TestWebhooksOfOneNamespaceThatAreAskedAboutAll is about an administrator who forgot the selector: what is not the operator's
// business it lets through, unjudged.
func TestWebhooksOfOneNamespaceThatAreAskedAboutAll(t *testing.T) {
	ns, other := harness.Namespace(t), harness.Namespace(t)
	authority, directory, address := newIssuer(t), t.TempDir(), harness.UnusedAddress(t)
	authority.mount(t, directory)
	register(t, authority, address, ns, nil)
	startMounted(t, ns, address, directory)
	wrong := func(ns string) *v1alpha1.DynamoGraphDeployment {
		g := frontend(ns, "wrong")
		g.Spec.Services["frontend"] = g.Spec.Services["Frontend"] // which no schema forbids
		return g
	}
	harness.Eventually(t, time.Minute, "a refusal in its own namespace", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), wrong(ns))
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "denied the request"), fmt.Sprint(err)
	})
	if err := harness.Client(t).Create(t.Context(), wrong(other)); err != nil {
		t.Errorf("it refuses what is in another namespace: %v", err)
	}
	request := func(ns string) *v1alpha1.DynamoGraphDeploymentRequest {
		r := &v1alpha1.DynamoGraphDeploymentRequest{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "abroad"}}
		r.Spec.Model, r.Spec.Backend = "acme/tiny-1b", "vllm"
		r.Spec.ProfilingConfig.ProfilerImage = "example.com/profiler:1"
		r.Spec.ProfilingConfig.Config = &apiextensionsv1.JSON{Raw: []byte(`{"sla":{"isl":1}}`)}
		r.Spec.DeploymentOverrides = &v1alpha1.DeploymentOverridesSpec{Namespace: "kube-public"}
		return r
	}
	if err := harness.Client(t).Create(t.Context(), request(ns)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.deploymentOverrides.namespace") {
		t.Errorf("a request that leaves its namespace: %v", err)
	}
	if err := harness.Client(t).Create(t.Context(), request(other)); err != nil {
		t.Errorf("it judges requests of another namespace: %v", err)
	}
}
