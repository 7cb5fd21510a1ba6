// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

// commands are the blocks of a page that are to be followed.
var commands = regexp.MustCompile("(?s)```sh\n(.*?)```")

// follow does what a page of the documentation says, in a directory that has the shipped manifests. What other makes of a block
// takes its place.
func follow(t *testing.T, page, directory string, other func(block string) string) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "config"), filepath.Join(directory, "config")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range commands.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(other(block[1]))
	}
	harness.Shell(t, directory, script.String())
}

// takeWebhooksAway undoes what counts for the whole control plane. The rest stays: nobody else minds.
func takeWebhooksAway(t *testing.T) {
	t.Helper()
	for _, kind := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		err := harness.Client(t).DeleteAllOf(context.WithoutCancel(t.Context()), kind, client.MatchingLabels{"app.kubernetes.io/component": "webhook"})
		if err != nil {
			t.Errorf("take webhooks away: %v", err)
		}
	}
}

// TestTheShippedManifestsRunTheOperator follows the pages on installation: an operator of all namespaces first, and one of a
// namespace beside it.
func TestTheShippedManifestsRunTheOperator(t *testing.T) {
	t.Cleanup(func() { takeWebhooksAway(t) })
	if err := harness.Client(t).Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "monitoring"}}); err != nil {
		t.Fatal(err)
	}
	prometheus, stranger := tokenOf(t, "monitoring", "prometheus"), tokenOf(t, "monitoring", "stranger")
	follow(t, "installation.md", t.TempDir(), func(block string) string { return block })
	held := holdLease(t)
	k := startPods(t, ownNamespace)
	everywhere := k.Pods
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	t.Run("not while an operator of the chart or the reference leads", func(t *testing.T) { waitsFor(t, ns, everywhere, held) })
	t.Run("in all namespaces", func(t *testing.T) {
		works(t, ns, everywhere, prometheus)
		answersOnly(t, everywhere[0], prometheus, map[string]int{stranger: http.StatusForbidden, "": http.StatusUnauthorized})
	})
	t.Run("in one namespace", func(t *testing.T) {
		const team = "team-a"
		requests, directory := since(t), t.TempDir()
		follow(t, "restricted.md", directory, func(block string) string {
			if !strings.HasPrefix(block, "openssl ") {
				return block
			}
			certify(t, directory, "dynamo-operator-webhook-service."+team+".svc")
			return ""
		})
		harness.SimulateDeployments(t, team)
		pods := startPods(t, team).Pods
		token := &corev1.Secret{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: team, Name: "dynamo-operator-metrics-token"}, token); err != nil {
			t.Fatal(err)
		}
		works(t, team, pods, string(token.Data["token"]))
		answersOnly(t, pods[0], string(token.Data["token"]), map[string]int{prometheus: http.StatusForbidden, "": http.StatusUnauthorized})
		for _, r := range requests() {
			if r.Namespace == team && r.User == everywhere[0].User && isWrite(r) {
				t.Errorf("the other operator wrote there: %s %s", r.Verb, r.URI)
			}
			if r.User == pods[0].User && r.Code == http.StatusForbidden {
				t.Errorf("it asked for what it may not have: %s %s", r.Verb, r.URI)
			}
		}
	})
	t.Run("in all others", func(t *testing.T) { works(t, ns, everywhere, prometheus) })
	t.Run("when the one that leads is told to end", func(t *testing.T) { handsOver(t, ns, k, prometheus) })
}

// startPods starts what the shipped Deployment in a namespace asks for.
func startPods(t *testing.T, namespace string) *kubelet.Kubelet {
	t.Helper()
	k := kubelet.New(t, namespace, "dynamo-operator")
	k.Roll()
	for _, p := range k.Pods {
		if diff := cmp.Diff([]string{"dynamo-operator-metrics", "dynamo-operator-webhook-service"}, p.Services); diff != "" {
			t.Errorf("Services that lead to a pod (-want +got):\n%s", diff)
		}
	}
	return k
}

// certify makes the files that the page makes with openssl.
func certify(t *testing.T, directory, host string) {
	t.Helper()
	authority := newIssuer(t)
	leaf, key := authority.issue(t, &x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"tls.crt": encoded("CERTIFICATE", leaf.Raw), "tls.key": encoded("EC PRIVATE KEY", der), "ca.crt": encoded("CERTIFICATE", authority.certificate.Raw),
	} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// works has a graph made and one refused, by these pods.
func works(t *testing.T, ns string, pods []*kubelet.Pod, token string) {
	t.Helper()
	name := uniqueName()
	good := frontend(ns, name)
	harness.Eventually(t, time.Minute, "a graph being taken", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), good.DeepCopy())
		return err == nil, fmt.Sprint(err)
	})
	harness.AwaitReady(t, ns, name)
	bad := frontend(ns, "bad")
	bad.Spec.Services["frontend"] = bad.Spec.Services["Frontend"] // which no schema forbids
	before := denials(t, pods, token)
	err := harness.Client(t).Create(t.Context(), bad)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `admission webhook "vdynamographdeployment.kb.io" denied the request`) {
		t.Errorf("a wrong graph: %v", err)
	}
	if denials(t, pods, token) == before {
		t.Error("it was somebody else who refused it")
	}
	stamped := &v1alpha1.DynamoGraphDeployment{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(good), stamped); err != nil || stamped.Annotations[names.AnnotationOriginVersion] != "0.0.0-dev" {
		t.Errorf("the graph is not stamped: %v %v", err, stamped.Annotations)
	}
}

// denials counts what pods have refused.
func denials(t *testing.T, pods []*kubelet.Pod, token string) int {
	t.Helper()
	sum := 0
	for _, p := range pods {
		_, text := scrape(t, "https://"+p.Metrics+"/metrics", token)
		for _, line := range regexp.MustCompile(`(?m)^dynamo_operator_webhook_denials_total\{.*\} (\d+)$`).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(line[1])
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

// answersOnly scrapes with a token that may, and with others.
func answersOnly(t *testing.T, p *kubelet.Pod, token string, others map[string]int) {
	t.Helper()
	url := "https://" + p.Metrics + "/metrics"
	code, text := scrape(t, url, token)
	// The API server chooses whom it asks, so that nothing about webhooks can be expected of a single pod.
	if code != http.StatusOK || !strings.Contains(text, "dynamo_operator_certificate_expiry_timestamp_seconds") {
		t.Errorf("with the right: answer %d: %.200s", code, text)
	}
	for token, want := range others {
		if code, _ := scrape(t, url, token); code != want {
			t.Errorf("without the right: answer %d, want %d", code, want)
		}
	}
}
