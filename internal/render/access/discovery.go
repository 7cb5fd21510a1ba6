// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package access renders the accounts of pods and what they may do.
package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Discovery renders the account under which the pods of a graph find each other through the Kubernetes API. The binding
// is a stage of its own: the API server looks the role up to see whether we may grant it.
func Discovery(namespace, graph string) (first, then []client.Object) {
	account := names.DiscoveryAccount(graph)
	first = []client.Object{
		&corev1.ServiceAccount{ObjectMeta: accessMeta(namespace, account, account)},
		&rbacv1.Role{ObjectMeta: accessMeta(namespace, names.DiscoveryRole(graph), account), Rules: discoveryRules()},
	}
	then = []client.Object{&rbacv1.RoleBinding{
		ObjectMeta: accessMeta(namespace, names.DiscoveryBinding(graph), account),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: names.DiscoveryRole(graph)},
	}}
	return first, then
}

func discoveryRules() []rbacv1.PolicyRule {
	read := []string{"get", "list", "watch"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: read},
		{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
		{
			APIGroups: []string{v1alpha1.GroupVersion.Group},
			Resources: []string{"dynamoworkermetadatas"},
			Verbs:     []string{"create", "get", "list", "watch", "update", "patch", "delete"},
		},
	}
}
