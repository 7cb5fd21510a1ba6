// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// hook is one webhook of a configuration, as far as it matters here.
type hook struct {
	name   string
	client admissionregistrationv1.WebhookClientConfig
}

// configuration is a webhook configuration of either kind.
type configuration struct {
	object client.Object
	hooks  []hook
}

// name is how a configuration is called in messages.
func (c configuration) name() string {
	if _, ok := c.object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		return "MutatingWebhookConfiguration " + c.object.GetName()
	}
	return "ValidatingWebhookConfiguration " + c.object.GetName()
}

// carries tells whether all webhooks of a configuration trust an authority.
func (c configuration) carries(certificate string) bool {
	return !slices.ContainsFunc(c.hooks, func(h hook) bool {
		return !slices.ContainsFunc(authoritiesIn(h.client.CABundle), func(a Authority) bool { return a.Certificate == certificate })
	})
}

// named are the configurations that there should be, without a content.
func named(validating, mutating string) []configuration {
	var all []configuration
	if validating != "" {
		meta := metav1.ObjectMeta{Name: validating}
		all = append(all, configuration{object: &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}})
	}
	if mutating != "" {
		meta := metav1.ObjectMeta{Name: mutating}
		all = append(all, configuration{object: &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}})
	}
	return all
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=dynamo-operator-validating,verbs=get
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=dynamo-operator-mutating,verbs=get

// readConfigurations reads the configurations that there are, and names those that there are not.
func readConfigurations(ctx context.Context, api client.Reader, wanted []configuration) ([]configuration, []string, error) {
	var there []configuration
	var absent []string
	for _, w := range wanted {
		object, _ := w.object.DeepCopyObject().(client.Object)
		err := api.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			absent = append(absent, w.name())
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", w.name(), err)
		}
		there = append(there, configuration{object: object, hooks: hooksOf(object)})
	}
	return there, absent, nil
}

func hooksOf(object client.Object) []hook {
	var all []hook
	switch o := object.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			all = append(all, hook{w.Name, w.ClientConfig})
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range o.Webhooks {
			all = append(all, hook{w.Name, w.ClientConfig})
		}
	}
	return all
}

// found are all authorities that configurations carry, each once.
func found(all []configuration) []Authority {
	var s State
	for _, c := range all {
		for _, h := range c.hooks {
			for _, a := range authoritiesIn(h.client.CABundle) {
				if !s.has(a.Certificate) {
					s.Authorities = append(s.Authorities, a)
				}
			}
		}
	}
	return s.Authorities
}

// change is a strategic merge patch: lists of webhooks are merged by their names, so that nothing but what stands in it is
// touched, whatever the order. The version makes it fail where somebody else was faster.
type change struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Webhooks []hookChange `json:"webhooks"`
}

type hookChange struct {
	Name         string         `json:"name"`
	ClientConfig map[string]any `json:"clientConfig"`
}

// changeOf is what has to change in a configuration for it to carry the bundle, nil if nothing has. With a base, webhooks
// are called there and not through a Service.
func changeOf(c configuration, bundle []byte, base *url.URL) *change {
	wanted := &change{}
	wanted.Metadata.ResourceVersion = c.object.GetResourceVersion()
	for _, h := range c.hooks {
		fields := map[string]any{}
		if !bytes.Equal(h.client.CABundle, bundle) {
			fields["caBundle"] = bundle
		}
		if address := addressOf(h, base); address != "" && (h.client.URL == nil || *h.client.URL != address) {
			fields["url"], fields["service"] = address, nil
		}
		if len(fields) > 0 {
			wanted.Webhooks = append(wanted.Webhooks, hookChange{h.name, fields})
		}
	}
	if len(wanted.Webhooks) == 0 {
		return nil
	}
	return wanted
}

// addressOf is where a webhook is called outside the cluster: at its own path under the base.
func addressOf(h hook, base *url.URL) string {
	if base == nil {
		return ""
	}
	path := ""
	if h.client.Service != nil && h.client.Service.Path != nil {
		path = *h.client.Service.Path
	} else if h.client.URL != nil {
		if u, err := url.Parse(*h.client.URL); err == nil {
			path = u.Path
		}
	}
	return base.Scheme + "://" + base.Host + path
}

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=dynamo-operator-validating,verbs=patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations,resourceNames=dynamo-operator-mutating,verbs=patch

// publish changes a configuration, and reads back what became of it.
func publish(ctx context.Context, api client.Writer, c configuration, wanted *change) error {
	content, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("encode a change of %s: %w", c.name(), err)
	}
	patch := client.RawPatch(types.StrategicMergePatchType, content)
	if err := api.Patch(ctx, c.object, patch, client.FieldOwner(names.FieldManager)); err != nil {
		return fmt.Errorf("publish the certificate authority in %s: %w", c.name(), err)
	}
	return nil
}
