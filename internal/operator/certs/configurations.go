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

// place is where webhooks are called: at a URL, or without one through a Service.
type place struct {
	base    *url.URL
	service client.ObjectKey
}

// changeOf is what has to change in a configuration for it to carry the bundle and to lead to a place, nil if nothing has.
func changeOf(c configuration, bundle []byte, to place) *change {
	wanted := &change{}
	wanted.Metadata.ResourceVersion = c.object.GetResourceVersion()
	for _, h := range c.hooks {
		fields := to.lead(h)
		if !bytes.Equal(h.client.CABundle, bundle) {
			fields["caBundle"] = bundle
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

// lead is what has to change for a webhook to be called at a place, under the path that it has. A Service that somebody chose
// stays; a URL that an operator outside the cluster has put in does not outlive it.
func (p place) lead(h hook) map[string]any {
	fields := map[string]any{}
	if p.base != nil {
		address := p.base.Scheme + "://" + p.base.Host + pathOf(h)
		if h.client.URL == nil || *h.client.URL != address {
			fields["url"], fields["service"] = address, nil
		}
		return fields
	}
	if h.client.URL == nil || p.service.Name == "" || p.reaches(*h.client.URL) {
		return fields
	}
	fields["url"], fields["service"] = nil, map[string]any{"namespace": p.service.Namespace, "name": p.service.Name, "path": pathOf(h)}
	return fields
}

// isMissedBy tells whether a webhook of a configuration is called somewhere else.
func (p place) isMissedBy(c configuration) bool {
	return slices.ContainsFunc(c.hooks, func(h hook) bool { return len(p.lead(h)) > 0 })
}

// reaches tells whether a URL is that of the Service, for which certificates are good.
func (p place) reaches(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Hostname() == serviceHost(p.service)
}

// pathOf is what a webhook is called under.
func pathOf(h hook) string {
	if h.client.Service != nil && h.client.Service.Path != nil {
		return *h.client.Service.Path
	}
	if h.client.URL == nil {
		return ""
	}
	u, err := url.Parse(*h.client.URL)
	if err != nil {
		return ""
	}
	return u.Path
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
