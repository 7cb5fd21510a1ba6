// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	metricsGroup   = "external.metrics.k8s.io"
	metricsVersion = "v1beta1"
)

// metrics is an external metrics API with one number, whatever is asked for.
type metrics struct {
	value atomic.Int64
}

// serveMetrics makes the API server pass requests for external metrics on to this process. A Service of type ExternalName
// is the one kind of backend of an aggregated API that may be on the loopback interface.
func serveMetrics(t *testing.T, namespace string) *metrics {
	t.Helper()
	const service = "metrics"
	m := &metrics{}
	certificate, key, err := cert.GenerateSelfSignedCertKey(service+"."+namespace+".svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(m)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	address, ok := server.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the metrics are served at %s", server.Listener.Addr())
	}

	create(t, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
	api := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": metricsGroup, "version": metricsVersion, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"service":  map[string]any{"namespace": namespace, "name": service, "port": int64(address.Port)},
		"caBundle": base64.StdEncoding.EncodeToString(certificate),
	}}}
	api.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	api.SetName(metricsVersion + "." + metricsGroup)
	create(t, api)
	t.Cleanup(func() {
		// An API that nobody answers for keeps every namespace from being deleted.
		if err := harness.Client(t).Delete(context.WithoutCancel(t.Context()), api); client.IgnoreNotFound(err) != nil {
			t.Logf("delete the APIService: %v", err)
		}
	})
	awaitAvailable(t, api)
	return m
}

func awaitAvailable(t *testing.T, api *unstructured.Unstructured) {
	t.Helper()
	harness.Eventually(t, patience, "the API server reaches the metrics", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(api), api); err != nil {
			return false, err.Error()
		}
		all, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		for _, entry := range all {
			c, _ := entry.(map[string]any)
			if c["type"] == "Available" {
				message, _ := c["message"].(string)
				return c["status"] == string(metav1.ConditionTrue), message
			}
		}
		return false, "no condition"
	})
}

// ServeHTTP answers discovery at the path of the version, and everything below it with the number.
func (m *metrics) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	const version = metricsGroup + "/" + metricsVersion
	below, ok := strings.CutPrefix(req.URL.Path, "/apis/"+version)
	answer := map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": []any{}}
	switch {
	case !ok:
		http.NotFound(w, req)
		return
	case below != "":
		answer = map[string]any{"kind": "ExternalMetricValueList", "apiVersion": version, "items": []any{map[string]any{
			"metricName": path.Base(below), "timestamp": metav1.Now(), "value": strconv.FormatInt(m.value.Load(), 10),
		}}}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
