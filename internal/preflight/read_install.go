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

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/config/crd"
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

// rights are what is asked for.
func (q Question) rights() []Right {
	return append(q.installRights(),
		Right{Verb: "create", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		Right{Verb: "patch", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		Right{Verb: "delete", Resource: "dynamographdeployments.nvidia.com", Namespace: q.Namespace},
		Right{Verb: "list", Resource: "pods", Namespace: q.Namespace},
		Right{Verb: "get", Resource: "pods/log", Namespace: q.Namespace},
	)
}

// installRights are those of whoever installs the platform: the kinds that it consists of, and the right to hand out rights. An
// operator of one namespace has nothing outside of it, and its definitions are there already.
func (q Question) installRights() []Right {
	var all []Right
	add := func(namespace, verb string, resources ...string) {
		for _, resource := range resources {
			all = append(all, Right{Install: true, Verb: verb, Resource: resource, Namespace: namespace})
		}
	}
	const rbac = ".rbac.authorization.k8s.io"
	if q.Preset == PresetMultiTenant {
		add(q.Install, "escalate", "roles"+rbac)
	} else {
		add("", "create", "customresourcedefinitions.apiextensions.k8s.io", "clusterroles"+rbac, "clusterrolebindings"+rbac,
			"validatingwebhookconfigurations.admissionregistration.k8s.io", "mutatingwebhookconfigurations.admissionregistration.k8s.io")
		add("", "escalate", "clusterroles"+rbac)
	}
	add(q.Install, "create", "deployments.apps", "statefulsets.apps", "services", "configmaps", "secrets", "serviceaccounts",
		"roles"+rbac, "rolebindings"+rbac, "poddisruptionbudgets.policy")
	if q.Preset == PresetProduction || q.Preset == PresetMultiTenant {
		add(q.Install, "create", "networkpolicies.networking.k8s.io")
	}
	return all
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
