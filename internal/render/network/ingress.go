// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// VirtualServiceKind is Istio's way of publishing a host.
var VirtualServiceKind = schema.GroupVersionKind{Group: "networking.istio.io", Version: "v1beta1", Kind: "VirtualService"}

// defaultHostSuffix ends hosts where neither user nor operator names a domain.
const defaultHostSuffix = "local"

// DefaultIngress is how a frontend that says nothing is published: not at all, unless the operator has a class or
// gateway. Then the graph's name is the host.
func DefaultIngress(graph string, s input.Settings) *v1alpha1.IngressSpec {
	spec := &v1alpha1.IngressSpec{
		Enabled:                    s.IngressClass != "" || s.IstioGateway != "",
		Host:                       graph,
		UseVirtualService:          s.IstioGateway != "",
		VirtualServiceGateway:      unlessEmpty(s.IstioGateway),
		HostSuffix:                 unlessEmpty(s.IngressHostSuffix),
		IngressControllerClassName: unlessEmpty(s.IngressClass),
	}
	if s.IngressTLSSecret != "" {
		spec.TLS = &v1alpha1.IngressTLSSpec{SecretName: s.IngressTLSSecret}
	}
	return spec
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Host is the name under which a component is published.
func Host(spec *v1alpha1.IngressSpec) string {
	suffix := ptr.Deref(spec.HostSuffix, "")
	if suffix == "" {
		suffix = defaultHostSuffix
	}
	return ptr.Deref(spec.HostPrefix, "") + spec.Host + "." + strings.TrimPrefix(suffix, ".")
}

// Ingress renders the component's Ingress, nil where it has none.
func Ingress(c input.Component) *networkingv1.Ingress {
	spec := c.Spec.Ingress
	if spec == nil || !spec.Enabled || ptr.Deref(spec.IngressControllerClassName, "") == "" {
		return nil
	}
	host := Host(spec)
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{
			Name: c.Name, Namespace: c.Namespace, Labels: spec.Labels, Annotations: spec.Annotations,
		},
		Spec: networkingv1.IngressSpec{
			IngressClassName: spec.IngressControllerClassName,
			Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{
				HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: c.Name, Port: networkingv1.ServiceBackendPort{Number: names.PortHTTPNumber},
					}},
				}}},
			}}},
		},
	}
	if spec.TLS != nil {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: spec.TLS.SecretName}}
	}
	return ingress
}

// VirtualService renders the component's Istio VirtualService, nil where it has none.
func VirtualService(c input.Component) *unstructured.Unstructured {
	spec := c.Spec.Ingress
	if c.Settings.IstioGateway == "" || spec == nil || !spec.Enabled || !spec.UseVirtualService || ptr.Deref(spec.VirtualServiceGateway, "") == "" {
		return nil
	}
	v := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"hosts":    []any{Host(spec)},
		"gateways": []any{*spec.VirtualServiceGateway},
		"http": []any{map[string]any{
			"match": []any{map[string]any{"uri": map[string]any{"prefix": "/"}}},
			"route": []any{map[string]any{"destination": map[string]any{
				"host": c.Name, "port": map[string]any{"number": int64(names.PortHTTPNumber)},
			}}},
		}},
	}}}
	v.SetGroupVersionKind(VirtualServiceKind)
	v.SetName(c.Name)
	v.SetNamespace(c.Namespace)
	v.SetLabels(spec.Labels)
	v.SetAnnotations(spec.Annotations)
	return v
}

// Unreachable returns what every API server would refuse of how a component is reached from outside.
func Unreachable(c input.Component) field.ErrorList {
	spec := c.Spec.Ingress
	if Ingress(c) == nil && VirtualService(c) == nil {
		return nil
	}
	at := c.Path.Child("ingress")
	errs := metavalidation.ValidateLabels(spec.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(spec.Annotations, at.Child("annotations"))...)
	slices.SortFunc(errs, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) }) // maps have no order
	if Ingress(c) == nil {
		return errs // what hosts a VirtualService may have is for Istio to say
	}
	for _, named := range []struct {
		name string
		at   *field.Path
	}{
		{ptr.Deref(spec.IngressControllerClassName, ""), at.Child("ingressControllerClassName")},
		{ptr.Deref(spec.TLS, v1alpha1.IngressTLSSpec{}).SecretName, at.Child("tls", "secretName")},
	} {
		if named.name != "" {
			errs = append(errs, invalid(named.at, named.name, "", validation.IsDNS1123Subdomain(named.name))...)
		}
	}
	host := Host(spec)
	problems := validation.IsDNS1123Subdomain(host)
	if strings.Contains(host, "*") {
		problems = validation.IsWildcardDNS1123Subdomain(host)
	}
	return append(errs, invalid(at.Child("host"), host, "prefix, host and suffix together are a host: ", problems)...)
}

func invalid(at *field.Path, value, because string, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(at, value, because+problem))
	}
	return errs
}
