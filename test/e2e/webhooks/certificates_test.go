// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/certs"
	server "github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestReplicasThatStartAtOnceShareOneAuthority(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	began := time.Now()
	var replicas []*replica
	for range 4 {
		replicas = append(replicas, s.start(nil))
	}
	serials := map[string]bool{}
	for _, r := range replicas {
		s.await(r)
		serials[r.leaf(t).SerialNumber.String()] = true
	}
	t.Logf("four replicas were ready after %s", time.Since(began))
	authorities := s.awaitPublished(1)
	for i, r := range replicas {
		if signed(r.leaf(t), authorities) != 0 {
			t.Errorf("the leaf of replica %d is of another authority", i)
		}
	}
	if len(serials) != len(replicas) {
		t.Errorf("%d replicas show %d leaves", len(replicas), len(serials))
	}
	if err := one(t.Context(), harness.Client(t), s.namespace); err != nil {
		t.Error(err)
	}
	// One that comes to what is there already writes nothing.
	s.quiet(func() { s.run(nil) })
}

// quiet fails the test for every write of the site's user while something happens.
func (s *site) quiet(something func()) {
	s.t.Helper()
	_, offset, err := localcluster.ReadAudit(harness.AuditLog(s.t), 0)
	if err != nil {
		s.t.Fatal(err)
	}
	something()
	records, _, err := localcluster.ReadAudit(harness.AuditLog(s.t), offset)
	if err != nil {
		s.t.Fatal(err)
	}
	seen := 0
	for _, r := range records {
		if r.User != s.user {
			continue
		}
		seen++
		switch r.Verb {
		case "get", "list", "watch":
		default:
			s.t.Errorf("%s %s %s: %d", r.Verb, r.Resource, r.Name, r.Code)
		}
	}
	if seen == 0 {
		s.t.Error("the audit log shows no request at all")
	}
}

func TestRotationOnDemandIsNoticedByNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	// Leaves live long enough to see the old authority stay, and not so long that it cannot be seen to go.
	short := func(c *certs.Options, _ *server.Options) { c.LeafLife, c.Settle = 9*time.Second, 2*time.Second }
	first, second := s.run(short), s.run(short)
	before := s.awaitPublished(1)[0]
	p := press(s, 20)
	s.annotate("now")
	both := s.awaitPublished(2)
	if signed(first.leaf(t), both) != 0 || !both[0].Equal(before) {
		t.Error("the new authority signs before API servers are sure to know it")
	}
	for _, r := range []*replica{first, second} {
		harness.Eventually(t, patience, "a leaf of the new authority", func() (bool, string) {
			return signed(r.leaf(t), both) == 1, "it is of the old one"
		})
	}
	if all, err := s.published(); err != nil || len(all) != 2 {
		t.Errorf("%d authorities are published while leaves of both may be around (%v)", len(all), err)
	}
	if s.annotations()[names.AnnotationRotateAuthority] != "" {
		t.Error("the wish was not taken away")
	}
	after := s.awaitPublished(1)[0]
	if !after.Equal(both[1]) {
		t.Error("the wrong authority stays")
	}
	p.More(few)
	p.Stop(t.Name())
}

func (s *site) annotations() map[string]string {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := harness.Client(s.t).Get(s.t.Context(), s.secret, secret); err != nil {
		s.t.Fatal(err)
	}
	return secret.Annotations
}

func (s *site) annotate(value string) {
	s.t.Helper()
	s.patchSecret(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, names.AnnotationRotateAuthority, value))
}

func (s *site) patchSecret(patch string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.secret.Namespace, Name: s.secret.Name}}
	if err := harness.Client(s.t).Patch(s.t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) deleteSecret() {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.secret.Namespace, Name: s.secret.Name}}
	if err := harness.Client(s.t).Delete(s.t.Context(), secret); err != nil {
		s.t.Fatal(err)
	}
}

func TestShortLivesAreNoticedByNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	short := func(c *certs.Options, _ *server.Options) {
		c.AuthorityLife, c.LeafLife, c.Settle = 12*time.Second, 3*time.Second, time.Second
	}
	first := s.run(short)
	s.run(short)
	p := press(s, 20)
	authorities, leaves := map[string]bool{}, map[string]bool{}
	harness.Eventually(t, time.Minute, "three authorities and eight leaves", func() (bool, string) {
		leaf := first.leaf(t)
		leaves[leaf.SerialNumber.String()], authorities[leaf.Issuer.CommonName] = true, true
		return len(authorities) >= 3 && len(leaves) >= 8, fmt.Sprintf("%d authorities, %d leaves", len(authorities), len(leaves))
	})
	p.More(few)
	p.Stop(t.Name())
}

func TestASecretThatIsDeletedComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	first, second := s.run(nil), s.run(nil)
	before := s.awaitPublished(1)[0]
	leaves := []*x509.Certificate{first.leaf(t), second.leaf(t)}
	p := press(s, 20)
	for range 3 {
		s.deleteSecret()
		harness.Eventually(t, patience, "a new Secret", func() (bool, string) {
			err := harness.Client(t).Get(t.Context(), s.secret, &corev1.Secret{})
			return err == nil, fmt.Sprint(err)
		})
		p.More(few)
	}
	p.Stop(t.Name())
	if after := s.awaitPublished(1)[0]; !after.Equal(before) {
		t.Error("the authority is another one")
	}
	for i, r := range []*replica{first, second} {
		if !r.leaf(t).Equal(leaves[i]) {
			t.Errorf("replica %d shows another leaf", i)
		}
	}
}

func TestASecretThatIsLostWhileNobodyRunsLeadsToANewAuthority(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	r := s.run(nil)
	before := s.awaitPublished(1)[0]
	r.stop()
	s.deleteSecret()
	r = s.run(nil)
	both := s.awaitPublished(2)
	if signed(r.leaf(t), both) != 0 || !both[1].Equal(before) {
		t.Error("what was published is not kept beside the new authority")
	}
	if err := one(t.Context(), harness.Client(t), s.namespace); err != nil {
		t.Error(err)
	}
}

func TestADamagedSecretIsRepaired(t *testing.T) {
	t.Parallel()
	const damage = `{"data":{"authorities.json":"bm8gSlNPTg=="}}`
	s := newSite(t)
	s.install()
	r := s.run(nil)
	before := s.awaitPublished(1)[0]
	// One that runs remembers what was there.
	p := press(s, 20)
	s.patchSecret(damage)
	harness.Eventually(t, patience, "repair", func() (bool, string) {
		secret := &corev1.Secret{}
		err := harness.Client(t).Get(t.Context(), s.secret, secret)
		return err == nil && len(secret.Data["authorities.json"]) > 100, fmt.Sprintf("%d bytes, %v", len(secret.Data["authorities.json"]), err)
	})
	p.More(few)
	p.Stop(t.Name())
	if after := s.awaitPublished(1)[0]; !after.Equal(before) || signed(r.leaf(t), []*x509.Certificate{before}) != 0 {
		t.Error("the authority is another one, though it was remembered")
	}
	// One that starts knows only what is published.
	r.stop()
	s.patchSecret(damage)
	r = s.run(nil)
	if both := s.awaitPublished(2); signed(r.leaf(t), both) != 0 || !both[1].Equal(before) {
		t.Error("what was published is not kept beside the new authority")
	}
}

func TestAConfigurationThatIsAppliedAgainIsRepairedWithinASecond(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	s.run(nil)
	s.run(nil)
	authority := s.awaitPublished(1)[0]
	type configuration = admissionregistrationv1.ValidatingWebhookConfiguration
	for name, act := range map[string]func(*configuration) error{
		"emptied": func(c *configuration) error { return harness.Client(t).Update(t.Context(), c) },
		"deleted and created": func(c *configuration) error {
			if err := harness.Client(t).Delete(t.Context(), c); err != nil {
				return err
			}
			c.ResourceVersion, c.UID = "", ""
			return harness.Client(t).Create(t.Context(), c)
		},
	} {
		// The machine has other things to do; what counts is how quick it can be.
		quickest := time.Hour
		for range 3 {
			quickest = min(quickest, s.reapply(authority, act))
		}
		if t.Logf("%s: repaired after %s", name, quickest); quickest > time.Second {
			t.Errorf("%s: it took %s", name, quickest)
		}
	}
	if err := one(t.Context(), harness.Client(t), s.namespace); err != nil {
		t.Error(err)
	}
}

// reapply writes a configuration as it comes out of a chart, and returns how long it took to be what it has to be.
func (s *site) reapply(authority *x509.Certificate, act func(*admissionregistrationv1.ValidatingWebhookConfiguration) error) time.Duration {
	s.t.Helper()
	live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Name: s.validating()}, live); err != nil {
		s.t.Fatal(err)
	}
	fresh, _ := s.configurations() // no bundle, and a Service in place of the URL
	fresh.ResourceVersion, fresh.UID = live.ResourceVersion, live.UID
	// The order is another one, and there is one more.
	fresh.Webhooks = append([]admissionregistrationv1.ValidatingWebhook{*fresh.Webhooks[5].DeepCopy()}, fresh.Webhooks...)
	fresh.Webhooks[0].Name = "added.kb.io"
	if err := act(fresh); err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	harness.Eventually(s.t, patience, "repair of a configuration", func() (bool, string) {
		all, err := s.published()
		return err == nil && len(all) == 1 && all[0].Equal(authority), fmt.Sprint(err)
	})
	took := time.Since(began)
	s.compare(fresh)
	return took
}

// compare fails the test where anything but the client configuration of webhooks differs from what was applied.
func (s *site) compare(applied *admissionregistrationv1.ValidatingWebhookConfiguration) {
	s.t.Helper()
	live := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Name: s.validating()}, live); err != nil {
		s.t.Fatal(err)
	}
	if len(live.Webhooks) != len(applied.Webhooks) {
		s.t.Fatalf("%d webhooks became %d", len(applied.Webhooks), len(live.Webhooks))
	}
	for i, w := range live.Webhooks {
		want := applied.Webhooks[i]
		if w.Name != want.Name || *w.ClientConfig.URL != "https://"+s.balancer.Address+*want.ClientConfig.Service.Path || w.ClientConfig.Service != nil {
			s.t.Errorf("webhook %d: %s at %v instead of %s", i, w.Name, w.ClientConfig.URL, want.Name)
		}
		if *w.FailurePolicy != *want.FailurePolicy || len(w.MatchConditions) != len(want.MatchConditions) || len(w.Rules) != len(want.Rules) {
			s.t.Errorf("webhook %s is not what was applied", w.Name)
		}
	}
}

func TestConfigurationsThatComeLaterAreWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run(nil) // nobody calls through what does not exist, so this is ready
	authority := s.stored()[0]
	s.install()
	if all := s.awaitPublished(1); !all[0].Equal(authority) {
		t.Error("another authority was published")
	}
	harness.Eventually(t, patience, "a judgement", func() (bool, string) {
		err := one(t.Context(), harness.Client(t), s.namespace)
		return err == nil, fmt.Sprint(err)
	})
}

func TestAReplicaWithoutRightsSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.install()
	r := s.start(func(c *certs.Options, _ *server.Options) { c.Secret.Name = "somebody-elses" })
	harness.Eventually(t, patience, "a word about the Secret", func() (bool, string) {
		err := r.ready()
		return mention(err, s.namespace+"/somebody-elses"), fmt.Sprint(err)
	})
}

func TestARollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	for name, modern := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.install()
			speak := func(_ *certs.Options, o *server.Options) { o.HTTP2, o.Drain = modern, 2*time.Second }
			running := []*replica{s.run(speak), s.run(speak)}
			p := press(s, 50)
			for i := range running {
				next := s.run(speak) // the new one is there before the old one goes
				running[i].stop()
				running[i] = next
				p.More(few)
			}
			p.Stop(t.Name())
		})
	}
}
