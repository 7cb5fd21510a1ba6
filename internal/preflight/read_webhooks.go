// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// graphs is the resource that is sent for admission.
const graphs = "dynamographdeployments"

// hook is what webhooks of both kinds have.
type hook struct {
	configuration, name string
	client              admissionregistrationv1.WebhookClientConfig
	policy              *admissionregistrationv1.FailurePolicyType
	namespaces, objects *metav1.LabelSelector
	rules               []admissionregistrationv1.RuleWithOperations
}

func (r reader) readWebhooks(ctx context.Context) error {
	all, err := r.hooks(ctx)
	if err != nil {
		return err
	}
	var surroundings labels.Set // nil if they may not be read
	if ns, err := r.core.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{}); err == nil {
		surroundings = labels.Merge(labels.Set{corev1.LabelMetadataName: ns.Name}, ns.Labels)
	}
	for _, h := range all {
		fact := Webhook{
			Configuration: h.configuration, Name: h.name, Trusted: len(h.client.CABundle) > 0, Asked: h.asked(surroundings),
			Required: h.policy == nil || *h.policy == admissionregistrationv1.Fail,
		}
		if s := h.client.Service; s != nil {
			fact.Service = s.Namespace + "/" + s.Name
			if fact.Endpoints, err = r.endpoints(ctx, s.Namespace, s.Name); err != nil {
				return err
			}
		}
		r.facts.Webhooks = append(r.facts.Webhooks, fact)
	}
	if len(all) > 0 {
		r.facts.Trial = r.try(ctx)
	}
	return nil
}

// hooks are all webhooks that objects of our group are sent to.
func (r reader) hooks(ctx context.Context) ([]hook, error) {
	validating, err := r.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	mutating, err := r.core.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []hook
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			all = append(all, hook{c.Name, w.Name, w.ClientConfig, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.Rules})
		}
	}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			all = append(all, hook{c.Name, w.Name, w.ClientConfig, w.FailurePolicy, w.NamespaceSelector, w.ObjectSelector, w.Rules})
		}
	}
	return slices.DeleteFunc(all, func(h hook) bool { return !slices.ContainsFunc(h.rules, isOurs) }), nil
}

func isOurs(rule admissionregistrationv1.RuleWithOperations) bool {
	return slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group)
}

// asked tells whether it is sent a new graph without labels of a namespace with these. Where they could not be read, only a webhook
// that is asked about every namespace is known to be. Conditions of webhooks are not evaluated: those of ours hold for new objects.
func (h hook) asked(surroundings labels.Set) bool {
	if !slices.ContainsFunc(h.rules, takesGraphs) || !matches(h.objects, labels.Set{}) {
		return false
	}
	if surroundings == nil {
		return h.namespaces == nil || len(h.namespaces.MatchLabels)+len(h.namespaces.MatchExpressions) == 0
	}
	return matches(h.namespaces, surroundings)
}

func takesGraphs(rule admissionregistrationv1.RuleWithOperations) bool {
	among := func(all []string, name string) bool { return slices.Contains(all, name) || slices.Contains(all, "*") }
	operations := slices.Contains(rule.Operations, admissionregistrationv1.Create) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)
	resources := among(rule.Resources, graphs) || slices.Contains(rule.Resources, "*/*")
	return isOurs(rule) && operations && resources && among(rule.APIVersions, v1alpha1.GroupVersion.Version)
}

// matches reads a selector as the API server does, which refuses those that cannot be understood.
func matches(selector *metav1.LabelSelector, set labels.Set) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(set)
}

// endpoints counts those of a Service that are ready.
func (r reader) endpoints(ctx context.Context, namespace, service string) (int, error) {
	slicesOf := labels.Set{discoveryv1.LabelServiceName: service}.String()
	found, err := r.core.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: slicesOf})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, s := range found.Items {
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				n++
			}
		}
	}
	return n, nil
}

// try sends a graph for admission without storing it. Whatever a webhook says about the graph, it was reached, unless the server says
// that it could not call it. Other refusals, such as that of a missing right, come before any webhook is asked.
func (r reader) try(ctx context.Context) Trial {
	graph := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "DynamoGraphDeployment",
		"metadata": map[string]any{"generateName": "preflight-"},
		"spec": map[string]any{"services": map[string]any{"Frontend": map[string]any{
			"componentType": "frontend", "extraPodSpec": map[string]any{"mainContainer": map[string]any{"image": "preflight"}},
		}}},
	}}
	resource := v1alpha1.GroupVersion.WithResource(graphs)
	_, err := r.dynamic.Resource(resource).Namespace(r.Namespace).Create(ctx, graph, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
		return Trial{Sent: true, Unanswered: err.Error()}
	}
	return Trial{Sent: err == nil || strings.Contains(err.Error(), "denied the request")}
}
