// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// SSHKey renders a namespace's copy of the key pair with which mpirun logs in to its workers. All graphs of the
// namespace share it.
func SSHKey(namespace string, s input.Settings) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: s.SSHSecret, Namespace: namespace},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{names.SSHPrivateKey: s.SSHKey.Private, names.SSHPublicKey: s.SSHKey.Public},
	}
}

// HasOriginal tells whether a namespace is where the key pair is kept, and needs no copy.
func HasOriginal(namespace string, s input.Settings) bool { return namespace == s.SSHSecretNamespace }
