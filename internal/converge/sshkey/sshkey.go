// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sshkey keeps the key pair with which mpirun logs in to the nodes of an engine. It is made when the first graph
// needs it, in one Secret of which every namespace that needs it has a copy.
package sshkey

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/converge/apply"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// bits of the key. Every ssh accepts RSA, also where newer kinds of keys are switched off.
const bits = 3072

// Keeper reads the key pair, and makes it where there is none.
type Keeper struct {
	Cache client.Reader
	// API is uncached, for the moments in which the cache does not show yet what another has made.
	API   client.Reader
	Apply *apply.Applier
	// Secret is where the pair is kept.
	Secret client.ObjectKey
	// Uncached tells that the cache does not hold the namespace it is in.
	Uncached bool

	making sync.Mutex
}

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;delete;get;list;patch;watch

// Pair returns the key pair. The first call of a cluster makes it.
func (k *Keeper) Pair(ctx context.Context) (input.KeyPair, error) {
	if k.Secret.Namespace == "" || k.Secret.Name == "" {
		return input.KeyPair{}, fmt.Errorf("the operator was started without --mpi-run-ssh-secret-name and --mpi-run-ssh-secret-namespace")
	}
	from := k.Cache
	if k.Uncached {
		from = k.API
	}
	pair, err := k.read(ctx, from)
	if !apierrors.IsNotFound(err) {
		return pair, err
	}
	k.making.Lock()
	defer k.making.Unlock()
	if pair, err = k.read(ctx, k.API); !apierrors.IsNotFound(err) {
		return pair, err
	}
	secret, err := generate(k.Secret)
	if err != nil {
		return input.KeyPair{}, err
	}
	if err := k.Apply.Keep(ctx, secret); apierrors.IsAlreadyExists(err) {
		return k.read(ctx, k.API) // another replica was faster
	} else if err != nil {
		return input.KeyPair{}, fmt.Errorf("make the key pair of mpirun in Secret %s: %w", k.Secret, err)
	}
	return pairOf(secret)
}

func (k *Keeper) read(ctx context.Context, from client.Reader) (input.KeyPair, error) {
	secret := &corev1.Secret{}
	if err := from.Get(ctx, k.Secret, secret); err != nil {
		return input.KeyPair{}, fmt.Errorf("read the key pair of mpirun in Secret %s: %w", k.Secret, err)
	}
	return pairOf(secret)
}

func pairOf(secret *corev1.Secret) (input.KeyPair, error) {
	pair := input.KeyPair{Private: secret.Data[names.SSHPrivateKey], Public: secret.Data[names.SSHPublicKey]}
	if len(pair.Private) == 0 || len(pair.Public) == 0 {
		return input.KeyPair{}, fmt.Errorf("the Secret %s/%s needs keys %s and %s: fill them, or delete it to have a new pair made",
			secret.Namespace, secret.Name, names.SSHPrivateKey, names.SSHPublicKey)
	}
	return pair, nil
}

func generate(at client.ObjectKey) (*corev1.Secret, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, fmt.Errorf("generate the key pair of mpirun: %w", err)
	}
	public, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("encode the public key of mpirun: %w", err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: at.Name, Namespace: at.Namespace},
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			names.SSHPrivateKey: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
			names.SSHPublicKey:  ssh.MarshalAuthorizedKey(public),
		},
	}, nil
}
