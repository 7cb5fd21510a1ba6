// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package grove

import (
	"bytes"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const keySecret = "mpi-run-ssh-secret"

func trtllm(ns, name string) *v1alpha1.DynamoGraphDeployment {
	return builders.Graph(ns, name).Service("Worker", v1alpha1.ComponentTypeWorker,
		builders.Args("python3 -m dynamo.trtllm --model-path /m"), builders.Nodes(2)).Obj()
}

func mpirunHasItsKey(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, trtllm(ns, "one"))
	create(t, trtllm(ns, "two"))
	harness.AwaitReady(t, ns, "one")
	harness.AwaitReady(t, ns, "two")
	secret := get(t, ns, keySecret, &corev1.Secret{})
	private, err := ssh.ParsePrivateKey(secret.Data[names.SSHPrivateKey])
	if err != nil {
		t.Fatalf("ssh cannot read the private key: %v", err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(secret.Data[names.SSHPublicKey])
	if err != nil || !bytes.Equal(public.Marshal(), private.PublicKey().Marshal()) {
		t.Errorf("the public key is not that of the private one: %v", err)
	}
	for i, name := range []string{"one", "two"} {
		if err := harness.Client(t).Delete(t.Context(), get(t, ns, name, &v1alpha1.DynamoGraphDeployment{})); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, patience, "graph gone", func() (bool, string) {
			err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &v1alpha1.DynamoGraphDeployment{})
			return apierrors.IsNotFound(err), "still there"
		})
		if i == 0 {
			get(t, ns, keySecret, &corev1.Secret{}) // the other graph needs it
		}
	}
	harness.Eventually(t, patience, "the copy gone with its last user", func() (bool, string) {
		err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: keySecret}, &corev1.Secret{})
		return apierrors.IsNotFound(err), "still there"
	})
}

func aChangedKeyReachesItsCopies(t *testing.T) {
	ns := harness.Namespace(t)
	harness.SimulateGrove(t, ns)
	create(t, trtllm(ns, "one"))
	harness.AwaitReady(t, ns, "one")
	original := get(t, "kube-system", keySecret, &corev1.Secret{})
	edited := original.DeepCopy()
	edited.Annotations = map[string]string{"example.com/rotated": "yes"}
	edited.Data[names.SSHPublicKey] = append(bytes.TrimSpace(edited.Data[names.SSHPublicKey]), []byte(" rotated\n")...)
	if err := harness.Client(t).Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, "the copy refreshed", func() (bool, string) {
		copied := get(t, ns, keySecret, &corev1.Secret{})
		return bytes.HasSuffix(copied.Data[names.SSHPublicKey], []byte(" rotated\n")), string(copied.Data[names.SSHPublicKey])
	})
}
