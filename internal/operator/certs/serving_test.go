// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"crypto/x509"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// offline is a Keeper that has no API server to speak to, with an authority that it has read before.
func offline(t *testing.T, clock *clocktesting.FakePassiveClock) *Keeper {
	t.Helper()
	o := Options{
		Secret:  client.ObjectKey{Namespace: "system", Name: "ca"},
		Service: client.ObjectKey{Namespace: "system", Name: "hooks"}, ClientURL: "https://192.0.2.7:9443",
		AuthorityLife: authorityLife, LeafLife: leafLife, Settle: 10 * time.Second, Clock: clock, Log: testr.New(t),
	}
	policy, err := o.policy()
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeper{options: o, policy: policy, trigger: make(chan struct{}, 1)}
	if k.hosts, k.expected, k.base, err = o.hosts(); err != nil {
		t.Fatal(err)
	}
	plan, err := policy.Next(State{}, k.now(), Facts{Published: everywhere})
	if err != nil {
		t.Fatal(err)
	}
	k.remember(plan.State, k.now())
	k.passed = true
	return k
}

// shown is the leaf that a client is shown, verified as an API server does at this time.
func shown(t *testing.T, k *Keeper, host string) *x509.Certificate {
	t.Helper()
	certificate, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	roots, _ := k.Identity()
	_, err = certificate.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: k.now()})
	if err != nil {
		t.Fatalf("an API server would refuse the certificate: %v", err)
	}
	return certificate.Leaf
}

func TestALeafIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	k := offline(t, clock)
	first := shown(t, k, "hooks.system.svc")
	if got := first.NotAfter.Sub(start); got != leafLife {
		t.Errorf("it lives for %s", got)
	}
	clock.SetTime(start.Add(leafLife*2/3 - time.Second))
	if k.renew(k.now()); shown(t, k, "hooks.system.svc") != first {
		t.Error("it was replaced before it was time")
	}
	clock.SetTime(start.Add(leafLife * 2 / 3))
	k.renew(k.now())
	second := shown(t, k, "192.0.2.7")
	if second.Equal(first) || second.NotAfter.Sub(clock.Now()) != leafLife {
		t.Errorf("it was not replaced, or by one that ends at %s", second.NotAfter)
	}
	if leaf, authority := k.Expiry(); !leaf.Equal(second.NotAfter) || !authority.Equal(start.Add(authorityLife)) {
		t.Errorf("the end of the leaf is %s and that of the authority %s", leaf, authority)
	}
}

func TestAProcessThatSleptPastRenewalShowsAFreshLeafToItsFirstClient(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	k := offline(t, clock)
	first := shown(t, k, "hooks.system.svc")
	clock.SetTime(start.Add(30 * day)) // nothing ran in between
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := k.GetCertificate(nil); err != nil || got.Leaf.Equal(first) {
				t.Errorf("a client was shown a leaf that has expired (%v)", err)
			}
		})
	}
	all.Wait()
	shown(t, k, "hooks.system.svc")
	select {
	case <-k.trigger:
	default:
		t.Error("nobody was told to look after the rest")
	}
}

func TestAClockThatWasPutBackLeadsToALeafThatIsValidThen(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start)
	k := offline(t, clock)
	shown(t, k, "hooks.system.svc")
	clock.SetTime(start.Add(100 * day))
	ahead := shown(t, k, "hooks.system.svc")
	clock.SetTime(start.Add(time.Hour))
	if shown(t, k, "hooks.system.svc").Equal(ahead) {
		t.Error("a leaf from the future was shown")
	}
}

func TestALeafNeverOutlivesItsAuthority(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(start.Add(authorityLife - time.Hour))
	k := offline(t, clocktesting.NewFakePassiveClock(start))
	k.options.Clock = clock
	if got := shown(t, k, "hooks.system.svc").NotAfter; !got.Equal(start.Add(authorityLife)) {
		t.Errorf("it ends at %s", got)
	}
	// Nothing can be signed any more; what there is goes on being shown.
	clock.SetTime(start.Add(authorityLife + time.Hour))
	if _, err := k.GetCertificate(nil); err != nil {
		t.Error(err)
	}
}

func TestAKeeperWaitsForTheClockOrForSomethingToHappen(t *testing.T) {
	t.Parallel()
	k := offline(t, clocktesting.NewFakePassiveClock(start))
	k.wait(t.Context(), start) // it is time
	k.poke()
	k.poke() // twice is once
	k.wait(t.Context(), start.Add(day))
	select {
	case <-k.trigger:
		t.Error("what happened was not taken notice of")
	default:
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.wait(ctx, start.Add(day)) // nobody waits any more
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Keeper)
		want   string
	}{
		"nothing":           {func(*Keeper) {}, ""},
		"a leaf":            {func(k *Keeper) { k.leaf = nil }, "Secret system/ca"},
		"a look":            {func(k *Keeper) { k.passed = false }, "not been looked at"},
		"a bundle":          {func(k *Keeper) { k.unpublished = []string{"ValidatingWebhookConfiguration x"} }, "published yet in ValidatingWebhookConfiguration x"},
		"time, with others": {func(k *Keeper) { k.state = k.state.Cover("other", start.Add(day), start) }, "a moment ago"},
		"nothing, with a next one": {func(k *Keeper) {
			k.state.Authorities = append(k.state.Authorities, Authority{Phase: Next, Certificate: "other"})
		}, ""},
		"a bundle of its own":   {func(k *Keeper) { k.state.Authorities[0].Published = time.Time{} }, ""},
		"no longer any of this": {func(k *Keeper) { k.state.Authorities[0].Published = start.Add(-time.Minute) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := offline(t, clocktesting.NewFakePassiveClock(start))
			c.change(k)
			err := k.Ready(nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	good := Options{
		Secret: client.ObjectKey{Namespace: "a", Name: "b"}, Service: client.ObjectKey{Namespace: "a", Name: "c"},
		AuthorityLife: authorityLife, LeafLife: leafLife, Settle: 10 * time.Second,
	}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no Secret":         {func(o *Options) { o.Secret.Name = "" }, "needs a Secret"},
		"nobody to name":    {func(o *Options) { o.Service.Name = "" }, "need a Service or a URL"},
		"plain HTTP":        {func(o *Options) { o.ClientURL = "http://host" }, "not https"},
		"a URL of nothing":  {func(o *Options) { o.ClientURL = "https://" }, "not https"},
		"a life too short":  {func(o *Options) { o.AuthorityLife = 20 * time.Second }, "three times"},
		"a negative life":   {func(o *Options) { o.LeafLife = -1 }, "live"},
		"a negative settle": {func(o *Options) { o.Settle = -1 }, "live"},
		"no life at all":    {func(o *Options) { o.AuthorityLife = 0 }, "has to be given"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			c.change(&o)
			if _, err := New(nil, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
