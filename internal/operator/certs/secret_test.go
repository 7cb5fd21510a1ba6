// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// oneOfEach is a state with authorities that can be read, one of each phase.
func oneOfEach(t *testing.T) State {
	t.Helper()
	var s State
	for i, phase := range []Phase{Signing, Next, Retired} {
		a, err := newAuthority(start.Add(time.Duration(i)*time.Hour), authorityLife)
		if err != nil {
			t.Fatal(err)
		}
		if a.Phase = phase; phase == Retired {
			a = Policy{LeafLife: day}.retire(a, start)
		}
		s.Authorities = append(s.Authorities, a)
	}
	s.Authorities[0].Published = start.Add(time.Minute)
	return s
}

// secretOf is a Secret with a state in it.
func secretOf(t *testing.T, s State) *corev1.Secret {
	t.Helper()
	secret := newSecret(client.ObjectKey{Namespace: "system", Name: "ca"})
	if err := store(secret, s); err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestAStateComesBackFromASecret(t *testing.T) {
	t.Parallel()
	want := oneOfEach(t)
	secret := secretOf(t, want)
	secret.Data["other"] = []byte("stays")
	got, err := load(secret)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || !got.Equal(want) {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := store(secret, State{}); err != nil || string(secret.Data["other"]) != "stays" {
		t.Errorf("what else was in the Secret is gone (%v)", err)
	}
	if published := authoritiesIn(bundle(want)); len(published) != 3 || published[2].Certificate != want.Authorities[2].Certificate {
		t.Errorf("%d authorities are published", len(published))
	}
}

func TestADamagedSecretIsNoticedAndNotQuoted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(State) State
		raw    string
		want   string
	}{
		"no state":        {nil, "", "is missing"},
		"no JSON":         {nil, "-----BEGIN EC PRIVATE KEY-----", "no state"},
		"nothing in it":   {nil, "{}", "0 signing"},
		"two that sign":   {func(s State) State { s.Authorities[1].Phase = Signing; return s }, "", "2 signing"},
		"two next":        {func(s State) State { s.Authorities = append(s.Authorities, s.Authorities[1]); return s }, "", "2 next"},
		"unknown phase":   {func(s State) State { s.Authorities[2].Phase = "resting"; return s }, "", "unknown phase"},
		"keys swapped":    {func(s State) State { s.Authorities[0].Key = s.Authorities[1].Key; return s }, "", "does not belong"},
		"a key is gone":   {func(s State) State { s.Authorities[0].Key = ""; return s }, "", "does not belong"},
		"cut certificate": {func(s State) State { s.Authorities[2].Certificate = s.Authorities[2].Certificate[:80]; return s }, "", "authority 2: unreadable"},
		"two in one":      {func(s State) State { s.Authorities[2].Certificate += s.Authorities[0].Certificate; return s }, "", "exactly one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			secret := secretOf(t, oneOfEach(t))
			switch {
			case c.change != nil:
				secret = secretOf(t, c.change(oneOfEach(t)))
			case c.raw != "":
				secret.Data[stateKey] = []byte(c.raw)
			default:
				delete(secret.Data, stateKey)
			}
			_, err := load(secret)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "-----") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestALeafIsNoAuthority(t *testing.T) {
	t.Parallel()
	l, err := issue(oneOfEach(t).Authorities[0], hosts{dns: []string{"a"}}, start, day)
	if err != nil {
		t.Fatal(err)
	}
	content := encode(certificateBlock, l.certificate.Certificate[0]) + "garbage" + encode(keyBlock, []byte("x")) + encode(certificateBlock, []byte("x"))
	if found := authoritiesIn([]byte(content)); len(found) > 0 {
		t.Errorf("%d were found", len(found))
	}
}
