// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// twoHooks is a configuration of two webhooks: one called through a Service, one by URL.
func twoHooks(first, second []byte) configuration {
	object := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks", ResourceVersion: "7"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: first, Service: &admissionregistrationv1.ServiceReference{Name: "s", Path: new("/judge-a")},
			}},
			{Name: "b", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: second, URL: new("https://old:1/judge-b")}},
		},
	}
	return configuration{object: object, hooks: hooksOf(object)}
}

func TestOnlyWhatHasToChangeIsChanged(t *testing.T) {
	t.Parallel()
	base := &url.URL{Scheme: "https", Host: "192.0.2.7:9443", Path: "/ignored"}
	there := twoHooks([]byte("bundle"), []byte("bundle"))
	there.hooks[0].client.URL, there.hooks[0].client.Service = new("https://192.0.2.7:9443/judge-a"), nil
	there.hooks[1].client.URL = new("https://192.0.2.7:9443/judge-b")
	service := client.ObjectKey{Namespace: "n", Name: "s"}
	inside := twoHooks([]byte("bundle"), []byte("bundle"))
	inside.hooks[1].client.URL = new("https://s.n.svc:443/judge-b")
	for name, c := range map[string]struct {
		configuration configuration
		to            place
		want          string
	}{
		"nothing": {inside, place{service: service}, "null"},
		"one bundle": {
			twoHooks([]byte("bundle"), nil), place{},
			`{"metadata":{"resourceVersion":"7"},"webhooks":[{"name":"b","clientConfig":{"caBundle":"YnVuZGxl"}}]}`,
		},
		"bundles and addresses": {
			twoHooks(nil, []byte("bundle")), place{base: base, service: service},
			`{"metadata":{"resourceVersion":"7"},"webhooks":[` +
				`{"name":"a","clientConfig":{"caBundle":"YnVuZGxl","service":null,"url":"https://192.0.2.7:9443/judge-a"}},` +
				`{"name":"b","clientConfig":{"service":null,"url":"https://192.0.2.7:9443/judge-b"}}]}`,
		},
		"nothing outside the cluster": {there, place{base: base, service: service}, "null"},
		"back to the Service": {
			there, place{service: service},
			`{"metadata":{"resourceVersion":"7"},"webhooks":[` +
				`{"name":"a","clientConfig":{"service":{"name":"s","namespace":"n","path":"/judge-a"},"url":null}},` +
				`{"name":"b","clientConfig":{"service":{"name":"s","namespace":"n","path":"/judge-b"},"url":null}}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(changeOf(c.configuration, []byte("bundle"), c.to))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnAuthorityIsPublishedWhenEveryWebhookTrustsIt(t *testing.T) {
	t.Parallel()
	s := oneOfEach(t)
	one, all := []byte(s.Authorities[0].Certificate), bundle(s)
	c := twoHooks(all, one)
	if !c.carries(s.Authorities[0].Certificate) {
		t.Error("one that both trust is not seen")
	}
	if c.carries(s.Authorities[1].Certificate) {
		t.Error("one that only the first trusts counts")
	}
	if got := found([]configuration{c, twoHooks(one, []byte("no PEM"))}); len(got) != 3 {
		t.Errorf("%d authorities were found, want each of three once", len(got))
	}
}
