// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// readDefinitions compares the definitions of the cluster with those that are part of this program.
func (r reader) readDefinitions(ctx context.Context) error {
	ours, err := crd.All()
	if err != nil {
		return err
	}
	found, err := r.extensions.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, own := range ours {
		r.facts.Expected = append(r.facts.Expected, own.Name)
		i := slices.IndexFunc(found.Items, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == own.Name })
		if i < 0 {
			continue
		}
		d := found.Items[i]
		served := slices.ContainsFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == v1alpha1.GroupVersion.Version && v.Served
		})
		r.facts.Definitions = append(r.facts.Definitions, Definition{
			Name: d.Name, Served: served, Same: reflect.DeepEqual(schemas(*own), schemas(d)), Release: release(d.Annotations),
		})
	}
	return nil
}

// schemas are those of a definition by version, as text, because a server keeps nothing where we write an empty list.
func schemas(d apiextensionsv1.CustomResourceDefinition) map[string]string {
	all := map[string]string{}
	for _, v := range d.Spec.Versions {
		text, err := json.Marshal(v.Schema)
		if err != nil {
			text = []byte(err.Error())
		}
		all[v.Name] = string(text)
	}
	return all
}

// release is the Helm release that owns an object, if one does.
func release(annotations map[string]string) string {
	name, namespace := annotations["meta.helm.sh/release-name"], annotations["meta.helm.sh/release-namespace"]
	if name == "" {
		return ""
	}
	return namespace + "/" + name
}

func (r reader) readWebhooks(ctx context.Context) error {
	configurations, err := r.core.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, c := range configurations.Items {
		for _, w := range c.Webhooks {
			if !slices.ContainsFunc(w.Rules, isOurs) {
				continue
			}
			fact := Webhook{
				Configuration: c.Name, Name: w.Name, Trusted: len(w.ClientConfig.CABundle) > 0,
				Required: w.FailurePolicy == nil || *w.FailurePolicy == admissionregistrationv1.Fail,
			}
			if s := w.ClientConfig.Service; s != nil {
				fact.Service = s.Namespace + "/" + s.Name
				if fact.Endpoints, err = r.endpoints(ctx, s.Namespace, s.Name); err != nil {
					return err
				}
			}
			r.facts.Webhooks = append(r.facts.Webhooks, fact)
		}
	}
	if len(r.facts.Webhooks) > 0 {
		r.facts.Trial = r.try(ctx)
	}
	return nil
}

func isOurs(rule admissionregistrationv1.RuleWithOperations) bool {
	return slices.Contains(rule.APIGroups, v1alpha1.GroupVersion.Group)
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

// try sends a graph for admission without storing it. Whatever is said about the graph, the webhook was reached, unless the
// server says that it could not call it.
func (r reader) try(ctx context.Context) Trial {
	graph := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "DynamoGraphDeployment",
		"metadata": map[string]any{"generateName": "preflight-"},
		"spec": map[string]any{"services": map[string]any{"Frontend": map[string]any{
			"componentType": "frontend", "extraPodSpec": map[string]any{"mainContainer": map[string]any{"image": "preflight"}},
		}}},
	}}
	resource := v1alpha1.GroupVersion.WithResource("dynamographdeployments")
	_, err := r.dynamic.Resource(resource).Namespace(r.Namespace).Create(ctx, graph, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
		return Trial{Sent: true, Unanswered: err.Error()}
	}
	return Trial{Sent: err == nil}
}

// rights are what is asked for.
func (q Question) rights() []Right {
	return []Right{
		{Install: true, Verb: "create", Resource: "customresourcedefinitions.apiextensions.k8s.io"},
		{Install: true, Verb: "create", Resource: "clusterroles.rbac.authorization.k8s.io"},
		{Install: true, Verb: "create", Resource: "clusterrolebindings.rbac.authorization.k8s.io"},
		{Install: true, Verb: "create", Resource: "validatingwebhookconfigurations.admissionregistration.k8s.io"},
		{Install: true, Verb: "create", Resource: "deployments.apps", Namespace: q.Install},
		{Install: true, Verb: "create", Resource: "secrets", Namespace: q.Install},
		{Install: true, Verb: "create", Resource: "serviceaccounts", Namespace: q.Install},
		{Verb: "create", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		{Verb: "patch", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		{Verb: "delete", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		{Verb: "list", Resource: "pods", Namespace: q.Namespace},
		{Verb: "get", Resource: "pods/log", Namespace: q.Namespace},
	}
}

func (r reader) readRights(ctx context.Context) error {
	for _, right := range r.rights() {
		resource, group, _ := strings.Cut(right.Resource, ".")
		resource, sub, _ := strings.Cut(resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: right.Namespace, Verb: right.Verb, Group: group, Resource: resource, Subresource: sub,
			},
		}}
		answer, err := r.core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask whether you may %s %s: %w", right.Verb, right.Resource, err)
		}
		right.Allowed = answer.Status.Allowed
		r.facts.Rights = append(r.facts.Rights, right)
	}
	return nil
}

func (r reader) readOperators(ctx context.Context) error {
	deployments, err := r.core.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/name=dynamo-operator",
	})
	if err != nil {
		return err
	}
	for _, d := range deployments.Items {
		if o, ok := operatorOf(d); ok {
			r.facts.Operators = append(r.facts.Operators, o)
		}
	}
	if r.facts.Leaders, err = r.leases(ctx, "dynamo.nvidia.com"); err != nil {
		return err
	}
	r.facts.Claims, err = r.leases(ctx, names.ScopeLease)
	return err
}

// operatorOf reads a Deployment, if it is that of an operator. The reference has a proxy beside the operator.
func operatorOf(d appsv1.Deployment) (Operator, bool) {
	o := Operator{Namespace: d.Namespace, Name: d.Name, Ready: d.Status.ReadyReplicas}
	found := false
	for _, c := range d.Spec.Template.Spec.Containers {
		switch c.Name {
		case "kube-rbac-proxy":
			o.Reference = true
		case "manager":
			found, o.Image = true, c.Image
			for _, arg := range c.Args {
				if namespace, ok := strings.CutPrefix(strings.TrimLeft(arg, "-"), "restrictedNamespace="); ok {
					o.Restricted = namespace
				}
			}
		}
	}
	return o, found
}

func (r reader) leases(ctx context.Context, name string) ([]Lease, error) {
	found, err := r.core.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return nil, err
	}
	var all []Lease
	for _, l := range found.Items {
		holder := ""
		if l.Spec.HolderIdentity != nil {
			holder = *l.Spec.HolderIdentity
		}
		all = append(all, Lease{Namespace: l.Namespace, Holder: holder, Alive: holder != "" && r.alive(l.Spec.RenewTime, l.Spec.LeaseDurationSeconds)})
	}
	return all, nil
}
