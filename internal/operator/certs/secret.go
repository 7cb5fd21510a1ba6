// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Keys of the Secret.
const (
	// stateKey holds the state, with the keys of authorities.
	stateKey = "authorities.json"
	// bundleKey holds what is published, for people and other programs.
	bundleKey = "ca.crt"
)

// rotateNow is the one value of AnnotationRotateAuthority that means something.
const rotateNow = "now"

// newSecret is the Secret without a content. It does not carry the label by which the caches of the controllers select:
// none of them has to hold this key.
func newSecret(at client.ObjectKey) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{
			names.LabelAppManagedBy: names.OperatorName, names.LabelAppComponent: "webhook",
		}},
		Type: corev1.SecretTypeOpaque,
	}
}

// store puts a state into a Secret. What else is in there stays.
func store(into *corev1.Secret, s State) error {
	content, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode certificate authorities: %w", err)
	}
	if into.Data == nil {
		into.Data = map[string][]byte{}
	}
	into.Data[stateKey], into.Data[bundleKey] = content, bundle(s)
	return nil
}

// load reads the state of a Secret. An error says what is wrong with it, and nothing that is in it.
func load(from *corev1.Secret) (State, error) {
	content, ok := from.Data[stateKey]
	if !ok {
		return State{}, fmt.Errorf("key %s is missing", stateKey)
	}
	var s State
	if err := json.Unmarshal(content, &s); err != nil {
		return State{}, fmt.Errorf("key %s is no state of certificate authorities", stateKey) // the cause may quote a key
	}
	count := map[Phase]int{}
	for i := range s.Authorities {
		if err := check(&s.Authorities[i]); err != nil {
			return State{}, fmt.Errorf("key %s, authority %d: %w", stateKey, i, err)
		}
		count[s.Authorities[i].Phase]++
	}
	if count[Signing] != 1 || count[Next] > 1 {
		return State{}, fmt.Errorf("key %s has %d signing and %d next authorities", stateKey, count[Signing], count[Next])
	}
	return s, nil
}

// check reads what the certificate of an authority says and compares it with the rest.
func check(a *Authority) error {
	c, err := readAuthority(a.Certificate)
	if err != nil {
		return fmt.Errorf("unreadable certificate: %w", err)
	}
	a.Expires = c.NotAfter
	switch a.Phase {
	case Retired:
		return nil
	case Signing, Next:
		if _, err := tls.X509KeyPair([]byte(a.Certificate), []byte(a.Key)); err != nil {
			return errors.New("the key does not belong to the certificate")
		}
		return nil
	}
	return errors.New("unknown phase")
}

// lost are authorities that a Secret names whose state cannot be read.
func lost(from *corev1.Secret) []Authority {
	if from == nil {
		return nil
	}
	return authoritiesIn(from.Data[bundleKey])
}
