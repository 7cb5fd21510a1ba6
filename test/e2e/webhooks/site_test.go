// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/config/rbac"
	"github.com/dynamo-operator/dynamo-operator/config/webhook"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/certs"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	server "github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// patience is generous: what takes milliseconds on an idle machine takes seconds beside a compiler.
const patience = 30 * time.Second

// site is an installation: a namespace with a Secret, webhook configurations of its own that concern this namespace only,
// and the rights that the operator is shipped with, for these names.
type site struct {
	t         *testing.T
	namespace string
	user      string
	secret    client.ObjectKey
	// balancer stands where in a cluster the Service does.
	balancer *harness.Balancer
	replicas atomic.Int32
}

func newSite(t *testing.T) *site {
	t.Helper()
	namespace := harness.Namespace(t)
	s := &site{
		t: t, namespace: namespace, user: "keeper-" + namespace, balancer: harness.StartBalancer(t, 0),
		secret: client.ObjectKey{Namespace: namespace, Name: names.WebhookAuthority},
	}
	s.grant()
	return s
}

// grant gives the user the rules of the shipped role that name an object of ours, for the objects of this site, and those
// that cannot name one.
func (s *site) grant() {
	s.t.Helper()
	shipped, err := rbac.ManagerRole()
	if err != nil {
		s.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.user}}
	own := map[string]string{names.ValidatingConfiguration: s.validating(), names.MutatingConfiguration: s.mutating()}
	for _, rule := range shipped.Rules {
		switch {
		case len(rule.ResourceNames) == 1 && own[rule.ResourceNames[0]] != "":
			rule.ResourceNames = []string{own[rule.ResourceNames[0]]}
			role.Rules = append(role.Rules, rule)
		case slices.Contains(rule.Resources, "subjectaccessreviews"):
			rule.Resources = []string{"subjectaccessreviews"}
			role.Rules = append(role.Rules, rule)
		case slices.Contains(rule.Resources, "secrets") && slices.Contains(rule.Verbs, "create"):
			// The operator has more for the sake of others; this is what the authority needs.
			create, own := rule, rule
			create.Resources, create.Verbs = []string{"secrets"}, []string{"create"}
			own.Resources, own.Verbs, own.ResourceNames = []string{"secrets"}, []string{"get", "list", "patch", "watch"}, []string{names.WebhookAuthority}
			role.Rules = append(role.Rules, create, own)
		}
	}
	s.create(role)
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: s.user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	})
}

func (s *site) validating() string { return "validating-" + s.namespace }
func (s *site) mutating() string   { return "mutating-" + s.namespace }

// create makes something for the whole cluster that goes with the test.
func (s *site) create(object client.Object) {
	s.t.Helper()
	if err := harness.Client(s.t).Create(s.t.Context(), object); err != nil {
		s.t.Fatalf("create %s: %v", object.GetName(), err)
	}
	s.t.Cleanup(func() {
		if err := harness.Client(s.t).Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			s.t.Errorf("delete %s: %v", object.GetName(), err)
		}
	})
}

// configurations are the shipped ones, for this namespace.
func (s *site) configurations() (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration) {
	s.t.Helper()
	validating, mutating, err := webhook.Both()
	if err != nil {
		s.t.Fatal(err)
	}
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	validating.Name, mutating.Name = s.validating(), s.mutating()
	for i := range validating.Webhooks {
		validating.Webhooks[i].NamespaceSelector = only
	}
	for i := range mutating.Webhooks {
		mutating.Webhooks[i].NamespaceSelector = only
	}
	return validating, mutating
}

// install registers the webhooks.
func (s *site) install() {
	s.t.Helper()
	validating, mutating := s.configurations()
	s.create(validating)
	s.create(mutating)
}

// replica is one operator process, as far as webhooks go.
type replica struct {
	*certs.Keeper

	server *server.Server
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// start starts a replica without waiting for it. It is stopped with the test.
func (s *site) start(change func(*certs.Options, *server.Options)) *replica {
	s.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	api := harness.RESTConfig(s.t, s.user)
	rights, err := client.New(api, client.Options{Scheme: harness.Scheme(s.t)})
	if err != nil {
		s.t.Fatal(err)
	}
	number := s.replicas.Add(1)
	var r replica
	log := funcr.New(func(prefix, args string) { s.t.Logf("replica %d: %s %s", number, prefix, args) }, funcr.Options{LogTimestamp: true})
	defaults := config.Defaults().Webhooks.Certificates
	keep := certs.Options{
		AuthorityLife: defaults.AuthorityValidity.Duration, LeafLife: defaults.LeafValidity.Duration,
		Secret: s.secret, Service: client.ObjectKey{Namespace: s.namespace, Name: names.WebhookService}, Validating: s.validating(), Mutating: s.mutating(),
		ClientURL: "https://" + s.balancer.Address, Settle: 500 * time.Millisecond, Clock: clock.RealClock{}, Log: log,
	}
	serve := server.Options{
		Listener: listener, Version: "1.2.3", MayCreate: server.MayCreateGraphs(rights), Drain: 500 * time.Millisecond, Clock: clock.RealClock{}, Log: log,
	}
	if change != nil {
		change(&keep, &serve)
	}
	if r.Keeper, err = certs.New(api, keep); err != nil {
		s.t.Fatal(err)
	}
	serve.Certificates = r.Keeper
	if r.server, err = server.New(serve); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	for _, run := range []func(context.Context) error{r.Start, r.server.Start} {
		r.ended.Go(func() {
			if err := run(ctx); err != nil {
				s.t.Errorf("replica %d ended with: %v", number, err)
			}
		})
	}
	s.balancer.Add(listener.Addr().String(), r.ready)
	s.t.Cleanup(r.stop)
	return &r
}

// run starts a replica and waits until it is ready.
func (s *site) run(change func(*certs.Options, *server.Options)) *replica {
	s.t.Helper()
	r := s.start(change)
	s.await(r)
	return r
}

func (s *site) await(r *replica) {
	s.t.Helper()
	harness.Eventually(s.t, patience, "readiness", func() (bool, string) {
		err := r.ready()
		return err == nil, fmt.Sprint(err)
	})
}

func (r *replica) ready() error {
	if err := r.Ready(nil); err != nil {
		return err
	}
	return r.server.Ready(nil)
}

// stop ends a replica as a termination signal does.
func (r *replica) stop() {
	r.cancel()
	r.ended.Wait()
}

// leaf is what the replica shows.
func (r *replica) leaf(t *testing.T) *x509.Certificate {
	t.Helper()
	certificate, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Leaf
}

// bundles are the authorities of every webhook of both configurations, without those that do not exist.
func (s *site) bundles() map[string][]*x509.Certificate {
	s.t.Helper()
	all := map[string][]*x509.Certificate{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	err := harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Name: s.validating()}, validating)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	for _, w := range validating.Webhooks {
		all[w.Name] = parse(s.t, w.ClientConfig.CABundle)
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err = harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Name: s.mutating()}, mutating)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	for _, w := range mutating.Webhooks {
		all[w.Name] = parse(s.t, w.ClientConfig.CABundle)
	}
	return all
}

// published are the authorities that all webhooks carry, an error if they do not carry the same.
func (s *site) published() ([]*x509.Certificate, error) {
	var first []*x509.Certificate
	name := ""
	for webhook, bundle := range s.bundles() {
		if name != "" && !slices.EqualFunc(first, bundle, (*x509.Certificate).Equal) {
			return nil, fmt.Errorf("%s and %s carry different authorities", name, webhook)
		}
		first, name = bundle, webhook
	}
	return first, nil
}

// stored are the authorities in the Secret.
func (s *site) stored() []*x509.Certificate {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := harness.Client(s.t).Get(s.t.Context(), s.secret, secret); err != nil {
		s.t.Fatal(err)
	}
	return parse(s.t, secret.Data["ca.crt"])
}

// signed tells which of some authorities has signed a leaf, -1 if none has.
func signed(leaf *x509.Certificate, by []*x509.Certificate) int {
	return slices.IndexFunc(by, func(a *x509.Certificate) bool { return leaf.CheckSignatureFrom(a) == nil })
}

func parse(t *testing.T, bundle []byte) []*x509.Certificate {
	t.Helper()
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return all
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
}

// awaitPublished waits until all webhooks carry exactly so many authorities, which the Secret names too.
func (s *site) awaitPublished(count int) []*x509.Certificate {
	s.t.Helper()
	var all []*x509.Certificate
	harness.Eventually(s.t, patience, fmt.Sprintf("publication of %d authorities", count), func() (bool, string) {
		var err error
		if all, err = s.published(); err != nil {
			return false, err.Error()
		}
		stored := s.stored()
		return len(all) == count && slices.EqualFunc(all, stored, (*x509.Certificate).Equal),
			fmt.Sprintf("%d are published, %d are stored", len(all), len(stored))
	})
	return all
}

// mention tells whether an error has all the words.
func mention(err error, words ...string) bool {
	return err != nil && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(err.Error(), w) })
}
