// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// reference is the user, and the holder, that plays a restricted operator of the reference.
const reference = "reference"

// player plays the reference: it writes the Lease as that does, and works by labelling a graph.
type player struct {
	*story

	api client.Client
}

func (s *story) reference() player {
	s.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reference, Namespace: s.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: reference}},
	}
	if err := harness.Client(s).Create(s.Context(), binding); err != nil {
		s.Fatal(err)
	}
	api, err := client.New(harness.RESTConfig(s, reference), client.Options{Scheme: harness.Scheme(s)})
	if err != nil {
		s.Fatal(err)
	}
	p := player{story: s, api: api}
	harness.Eventually(s, time.Minute, "rights of the reference", func() (bool, string) {
		err := api.List(s.Context(), &coordinationv1.LeaseList{}, client.InNamespace(s.namespace))
		return err == nil, ""
	})
	return p
}

// claim makes the Lease, without a renewal time, or writes over whoever has it.
func (p player) claim() {
	p.Helper()
	seconds := int32(duration / time.Second)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		l, now := p.lease(), metav1.NowMicro()
		if l == nil {
			l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: names.ScopeLease, Namespace: p.namespace}}
			l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new(reference), LeaseDurationSeconds: &seconds, AcquireTime: &now}
			return p.api.Create(p.Context(), l)
		}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = new(reference), &seconds, &now
		return p.api.Update(p.Context(), l)
	})
	if err != nil {
		p.Fatal(err)
	}
}

// work renews and works for a while.
func (p player) work(turns int) {
	p.Helper()
	ticker := time.NewTicker(renewal / 4)
	defer ticker.Stop()
	for n := range turns {
		<-ticker.C
		g := &v1alpha1.DynamoGraphDeployment{}
		g.Name, g.Namespace = "g0", p.namespace
		touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"touched":"`+time.Now().Format("150405.000")+`"}}}`))
		if err := p.api.Patch(p.Context(), g, touch); err != nil {
			p.Fatal(err)
		}
		if n%4 == 3 {
			p.claim()
		}
	}
}

func TestTheClusterWideOperatorKeepsOutForTheReference(t *testing.T) {
	s := newStory(t)
	cluster := s.clusterWide()
	s.takesOver(cluster, time.Now(), slack)
	player := s.reference()
	player.claim()
	// The reference begins at once. What it is given here is the time in which it starts its controllers.
	harness.Eventually(t, time.Minute, "the cluster-wide operator keeping out", func() (bool, string) {
		return strings.Contains(cluster.Log(), "is left to an operator of its own"), ""
	})
	player.work(2) // in the first moments, in which there is no renewal time
	player.work(10)
	vanished := time.Now()
	s.takesOver(cluster, vanished, duration+slack)
	s.judge()
}

func TestTheReferenceTakingTheNamespaceEndsTheRestrictedOperator(t *testing.T) {
	s := newStory(t)
	restricted := s.restricted()
	s.begins(restricted)
	player := s.reference()
	player.claim()
	restricted.AwaitEnd(10 * time.Second)
	if said := restricted.Log(); !strings.Contains(said, "reference has taken the Lease") {
		t.Errorf("it does not say why it ended:\n%s", restricted.LastWords(10))
	}
	player.work(4)
	s.judge()
}
