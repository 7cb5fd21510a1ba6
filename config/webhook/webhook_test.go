// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/config/webhook"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	server "github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
)

func shipped(t *testing.T) (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration) {
	t.Helper()
	validating, mutating, err := webhook.Both()
	if err != nil {
		t.Fatal(err)
	}
	return validating, mutating
}

func TestEveryPathThatIsServedIsRegistered(t *testing.T) {
	t.Parallel()
	validating, mutating := shipped(t)
	if validating.Name != names.ValidatingConfiguration || mutating.Name != names.MutatingConfiguration {
		t.Errorf("they are called %s and %s", validating.Name, mutating.Name)
	}
	var paths []string
	for _, w := range validating.Webhooks {
		paths = append(paths, *w.ClientConfig.Service.Path)
		if w.ClientConfig.Service.Name != names.WebhookService {
			t.Errorf("%s is called through %s", w.Name, w.ClientConfig.Service.Name)
		}
	}
	for _, w := range mutating.Webhooks {
		paths = append(paths, *w.ClientConfig.Service.Path)
	}
	want := server.Paths()
	slices.Sort(want)
	slices.Sort(paths)
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAWebhookIsNamedAfterTheResourceItJudges(t *testing.T) {
	t.Parallel()
	definitions, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	plural := map[string]string{}
	for _, d := range definitions {
		plural[strings.ToLower(d.Spec.Names.Kind)] = d.Spec.Names.Plural
	}
	validating, _ := shipped(t)
	for _, w := range validating.Webhooks {
		kind := strings.TrimSuffix(strings.TrimPrefix(w.Name, "v"), ".kb.io")
		if !strings.HasSuffix(*w.ClientConfig.Service.Path, "-"+kind) {
			t.Errorf("%s leads to %s", w.Name, *w.ClientConfig.Service.Path)
		}
		if diff := cmp.Diff([]string{plural[kind]}, w.Rules[0].Resources); diff != "" || len(w.Rules) != 1 {
			t.Errorf("%s (-want +got):\n%s", w.Name, diff)
		}
		if *w.FailurePolicy != admissionregistrationv1.Fail || *w.TimeoutSeconds > 5 || len(w.MatchConditions) != 2 {
			t.Errorf("%s: policy %s, timeout %d, %d conditions", w.Name, *w.FailurePolicy, *w.TimeoutSeconds, len(w.MatchConditions))
		}
	}
}

func TestStampingIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	_, mutating := shipped(t)
	w := mutating.Webhooks[0]
	if len(mutating.Webhooks) != 1 || *w.FailurePolicy != admissionregistrationv1.Ignore ||
		!slices.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) {
		t.Errorf("got %+v", mutating.Webhooks)
	}
	if !strings.Contains(w.MatchConditions[0].Expression, names.AnnotationOriginVersion) {
		t.Error("what is stamped already is sent")
	}
	w.Name = "changed"
	mutating.Webhooks[0] = w
	if _, again := shipped(t); again.Webhooks[0].Name == "changed" {
		t.Error("a change to the result of one call shows up in the next one")
	}
}
