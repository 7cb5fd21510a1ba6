// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/certs"
	server "github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// places are where the webhooks of the site are called, by their names.
func (s *site) places() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	note := func(name string, c admissionregistrationv1.WebhookClientConfig) {
		if c.URL != nil {
			all[name] = *c.URL
			return
		}
		all[name] = c.Service.Namespace + "/" + c.Service.Name + *c.Service.Path
	}
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	for name, object := range map[string]client.Object{s.validating(): validating, s.mutating(): mutating} {
		if err := harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Name: name}, object); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, w := range validating.Webhooks {
		note(w.Name, w.ClientConfig)
	}
	for _, w := range mutating.Webhooks {
		note(w.Name, w.ClientConfig)
	}
	return all
}

func TestWebhooksFollowTheOperatorIntoTheClusterAndOutOfIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	at := func(prefix string) map[string]string {
		want := s.places()
		for name, place := range want {
			want[name] = prefix + place[strings.LastIndex(place, "/"):]
		}
		return want
	}
	outside, inside := at("https://"+s.balancer.Address), at(s.namespace+"/"+names.WebhookService)
	throughService := func(keep *certs.Options, _ *server.Options) { keep.ClientURL = "" }
	for _, step := range []struct {
		want   map[string]string
		change func(*certs.Options, *server.Options)
	}{{outside, nil}, {inside, throughService}, {outside, nil}, {inside, throughService}} {
		r := s.run(step.change)
		if diff := cmp.Diff(step.want, s.places()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		r.stop()
	}
	if len(slices.Collect(maps.Keys(inside))) != len(server.Paths()) {
		t.Errorf("got %v", inside)
	}
}
