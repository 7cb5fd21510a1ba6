// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// replicas are of one operator, whose leaves are renewed every few seconds.
var replicas = harness.ReplicaOptions{User: user, Namespace: ownNamespace, Version: "9.9.9", Certificates: "leafValidity: 12s, settlePeriod: 2s"}

const (
	// rate is how many graphs are created per second.
	rate = 50
	// endpointLag is for how long a Service goes on leading to a replica that is ending.
	endpointLag = time.Second
)

// TestAdmission is one story: the webhooks of an installation from its first minute to its upgrade.
func TestAdmission(t *testing.T) {
	makeOwnNamespace(t)
	ns := harness.Namespace(t)
	harness.InstallWebhooks(t)
	b := harness.StartBalancer(t, endpointLag)
	first := harness.StartReplica(t, b, replicas)
	second := harness.StartReplica(t, b, replicas)
	b.AwaitAll(t)

	t.Run("a graph that is wrong is refused with everything that is wrong", func(t *testing.T) {
		g := frontend(ns, "wrong")
		g.Spec.Services["Frontend"].Ingress = &v1alpha1.IngressSpec{Enabled: true}
		g.Spec.Services["Frontend"].VolumeMounts = []v1alpha1.VolumeMount{{Name: "a"}}
		err := harness.Client(t).Create(t.Context(), g)
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Fatalf("creating it: %v", err)
		}
		for _, want := range []string{"ingress", "mountPoint"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not named in: %v", want, err)
			}
		}
	})
	t.Run("a new graph is stamped", func(t *testing.T) {
		g := frontend(ns, "stamped")
		if err := harness.Client(t).Create(t.Context(), g); err != nil {
			t.Fatal(err)
		}
		if got := g.Annotations[names.AnnotationOriginVersion]; got != "9.9.9" {
			t.Errorf("the graph says it comes from version %q", got)
		}
	})
	t.Run("replicas of an adapter are for those who may change them", func(t *testing.T) { replicasGuarded(t, ns) })
	t.Run("the Secret is deleted", func(t *testing.T) { secretDeleted(t, ns) })
	t.Run("leaves are renewed", func(t *testing.T) { leavesRenewed(t, ns, first, second) })
	keys := authorityKeys(t)
	t.Run("the authority is rotated", func(t *testing.T) { authorityRotated(t, ns, first, second) })
	keys = append(keys, authorityKeys(t)...)
	t.Run("a rolling restart", func(t *testing.T) { rollingRestart(t, b, ns, first, second) })
	t.Run("no log holds a key", func(t *testing.T) { keepsKeys(t, keys, first, second) })
}

// as acts as somebody else who may do everything that the API server decides about.
func as(t *testing.T, name string) client.Client {
	t.Helper()
	config := harness.RESTConfig(t, localcluster.UserAdmin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:masters"}}
	api, err := client.New(config, client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func replicasGuarded(t *testing.T, ns string) {
	g := frontend(ns, "scaled")
	g.Spec.Services["Frontend"].ScalingAdapter = &v1alpha1.ScalingAdapter{Enabled: true}
	if err := harness.Client(t).Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	set := func(user string, replicas int32) error {
		patch := fmt.Sprintf(`{"spec":{"services":{"Frontend":{"replicas":%d}}}}`, replicas)
		return as(t, user).Patch(t.Context(), frontend(ns, "scaled"), client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	for _, stranger := range []string{
		"somebody", "system:serviceaccount:elsewhere:planner-serviceaccount", "system:serviceaccount:" + ns + ":my-planner-serviceaccount",
	} {
		if err := set(stranger, 3); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "spec.services[Frontend].replicas") {
			t.Errorf("%s changes the replicas of an adapter: %v", stranger, err)
		}
	}
	if err := set(names.PlannerUser(ns), 3); err != nil {
		t.Errorf("the planner may not: %v", err)
	}
	adapter := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "scaled-frontend"}}
	harness.Eventually(t, time.Minute, "the adapter scaled", func() (bool, string) {
		scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
		if err := as(t, "somebody").SubResource("scale").Patch(t.Context(), adapter, scale); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	harness.Eventually(t, time.Minute, "the number of the adapter in the graph, which the operator writes", func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil {
			return false, err.Error()
		}
		got := g.Spec.Services["Frontend"].Replicas
		return got != nil && *got == 5, fmt.Sprint(got)
	})
}

func authority(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ownNamespace, Name: names.WebhookAuthority}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return secret
}

func secretDeleted(t *testing.T, ns string) {
	l := harness.StartDryRuns(t, ns, rate)
	before := authority(t)
	if err := harness.Client(t).Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, "the Secret made again", func() (bool, string) {
		now := authority(t)
		return now.UID != "" && now.UID != before.UID, "it is not there"
	})
	l.More(2 * rate)
	l.Stop("the Secret was deleted")
}

// leaf is the certificate that a replica shows.
func leaf(t *testing.T, r *harness.Replica) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", r.Webhook, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the API server verifies it all the time
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

// leavesRenewed has every replica renew its leaf.
func leavesRenewed(t *testing.T, ns string, all ...*harness.Replica) {
	l := harness.StartDryRuns(t, ns, rate)
	for _, r := range all {
		before := leaf(t, r)
		harness.Eventually(t, time.Minute, "another leaf", func() (bool, string) {
			return leaf(t, r).SerialNumber.Cmp(before.SerialNumber) != 0, "still the same"
		})
	}
	l.Stop("leaves were renewed")
}

// authorityRotated has a new authority made, and waits until nothing of the old one is left.
func authorityRotated(t *testing.T, ns string, all ...*harness.Replica) {
	l := harness.StartDryRuns(t, ns, rate)
	secret := authority(t)
	old := string(secret.Data["ca.crt"])
	issuer := leaf(t, all[0]).AuthorityKeyId
	patch := client.MergeFrom(secret.DeepCopy())
	secret.Annotations = map[string]string{names.AnnotationRotateAuthority: "now"}
	if err := harness.Client(t).Patch(t.Context(), secret, patch); err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		harness.Eventually(t, time.Minute, "a leaf of another authority", func() (bool, string) {
			return !bytes.Equal(leaf(t, r).AuthorityKeyId, issuer), "still the same"
		})
	}
	if !strings.Contains(string(authority(t).Data["ca.crt"]), old) {
		t.Error("the old authority was dropped while leaves of it may be around")
	}
	harness.Eventually(t, time.Minute, "the old authority dropped", func() (bool, string) {
		return !strings.Contains(string(authority(t).Data["ca.crt"]), old), "it is still published"
	})
	l.More(rate)
	l.Stop("the authority was rotated")
}

func rollingRestart(t *testing.T, b *harness.Balancer, ns string, old ...*harness.Replica) {
	l := harness.StartDryRuns(t, ns, rate)
	for _, r := range old {
		b.Replace(t, r, replicas)
	}
	l.More(2 * rate)
	l.Stop("rolling restart")
}
