// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Account renders an account that all graphs of a namespace share and its binding to a role of the cluster.
func Account(namespace, account, clusterRole string) (*corev1.ServiceAccount, *rbacv1.RoleBinding) {
	return &corev1.ServiceAccount{ObjectMeta: accessMeta(namespace, account, account)},
		&rbacv1.RoleBinding{
			ObjectMeta: accessMeta(namespace, names.Binding(account), account),
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		}
}

func accessMeta(namespace, name, account string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
		names.LabelAppManagedBy: names.OperatorName,
		names.LabelAppComponent: names.RBAC,
		names.LabelAppName:      names.LabelValue(account),
	}}
}
