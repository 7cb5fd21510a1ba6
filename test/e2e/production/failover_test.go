// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package production_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
	"github.com/dynamo-operator/dynamo-operator/test/kubelet"
)

const (
	// election names the Lease of these stories.
	election = "dynamo.nvidia.com"
	// shippedElection is where the shipped manifests have it, beside those of the chart and of the reference.
	shippedElection = "kube-system"
)

const (
	// looksWithin is how often a standby looks at the Lease: every second, and up to 1.2 times as much later, which is client-go's
	// dice.
	looksWithin = 2200 * time.Millisecond
	// lasts is how long a Lease does, from the look that showed its last renewal.
	lasts = 12 * time.Second
	// killBound is within what the standby of a leader that was killed writes: that the Lease is over is found by another look. The rest
	// is for the write itself.
	killBound = lasts + 2*looksWithin + 600*time.Millisecond
	// stopBound is within what the successor of a leader writes that was told to end.
	stopBound = 3 * time.Second
)

// pair are two replicas, of which one leads. Their users differ, so that the audit log tells them apart.
type pair struct{ leader, standby *harness.Process }

func startPair(t *testing.T, ns string) pair {
	t.Helper()
	start := func(user string) *harness.Process {
		return harness.StartProcess(t, harness.ProcessOptions{
			User: user, Namespace: ns,
			// The timings are the defaults, which is what users wait for.
			Flags: []string{"--leader-elect", "--leader-election-id=" + election, "--leader-election-namespace=" + ns,
				"--config=" + configFile(t, "namespaceScope: {disabled: true}\n")},
		})
	}
	p := pair{leader: start("failover-a-" + ns)}
	harness.Eventually(t, time.Minute, "a leader", func() (bool, string) { return holder(t, ns) != "", "nobody leads" })
	p.standby = start("failover-b-" + ns)
	return p
}

func holder(t *testing.T, ns string) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: election}, lease)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// roll changes the image of all graphs.
func roll(t *testing.T, ns string, graphs int, image string) {
	t.Helper()
	for i := range graphs {
		harness.Change(t, client.ObjectKey{Namespace: ns, Name: fmt.Sprintf("g%d", i)}, func(g *v1alpha1.DynamoGraphDeployment) {
			g.Spec.Services["Frontend"].ExtraPodSpec.MainContainer.Image = image
		})
	}
}

// children counts what the graphs have, and how often their Deployments were changed.
func children(t *testing.T, ns string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for kind, list := range map[string]client.ObjectList{
		"deployments": &appsv1.DeploymentList{}, "services": &corev1.ServiceList{}, "components": &v1alpha1.DynamoComponentDeploymentList{},
	} {
		if err := harness.Client(t).List(t.Context(), list, client.InNamespace(ns)); err != nil {
			t.Fatal(err)
		}
		switch all := list.(type) {
		case *appsv1.DeploymentList:
			counts[kind] = int64(len(all.Items))
			for _, d := range all.Items {
				counts["generations"] += d.Generation
			}
		case *corev1.ServiceList:
			counts[kind] = int64(len(all.Items))
		case *v1alpha1.DynamoComponentDeploymentList:
			counts[kind] = int64(len(all.Items))
		}
	}
	return counts
}

func TestAnotherReplicaGoesOnWhenTheLeaderIsKilledDuringARollout(t *testing.T) {
	t.Parallel()
	const graphs = 50
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	p := startPair(t, ns)
	for i := range graphs {
		if err := harness.Client(t).Create(t.Context(), frontend(ns, fmt.Sprintf("g%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range graphs {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
	before := children(t, ns)
	requests := since(t)
	roll(t, ns, graphs/2, "example.com/frontend:2")
	p.leader.Kill()
	killed := time.Now()
	roll(t, ns, graphs, "example.com/frontend:2")
	for i := range graphs {
		harness.AwaitReady(t, ns, fmt.Sprintf("g%d", i))
	}
	converged := time.Since(killed)
	var first time.Time
	deletes := 0
	for _, r := range requests() {
		if r.User == p.standby.User && isWrite(r) && first.IsZero() {
			first = r.Received
		}
		if r.Verb == "delete" && r.Namespace == ns {
			deletes++
		}
	}
	t.Logf("the standby wrote %s after the leader was killed, and %d graphs were done after %s", first.Sub(killed).Round(time.Millisecond), graphs,
		converged.Round(time.Millisecond))
	if took := first.Sub(killed); first.IsZero() || took > killBound {
		t.Errorf("the standby took %s to begin", took)
	}
	after := children(t, ns)
	after["generations"] -= graphs // one change each
	if deletes > 0 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("something was lost or done twice: %d deletes, before %v, after %v", deletes, before, after)
	}
}

func TestAnotherReplicaGoesOnAtOnceWhenTheLeaderIsToldToEnd(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	harness.SimulateDeployments(t, ns)
	p := startPair(t, ns)
	requests := since(t)
	told := time.Now()
	p.leader.Stop()
	if err := harness.Client(t).Create(t.Context(), frontend(ns, "g0")); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, "g0")
	for _, r := range requests() {
		if r.User == p.standby.User && isWrite(r) {
			took := r.Received.Sub(told)
			t.Logf("the successor wrote %s after the leader was told to end", took.Round(time.Millisecond))
			if took > stopBound {
				t.Errorf("the successor took %s", took)
			}
			return
		}
	}
	t.Error("the successor wrote nothing")
}

// holdLease takes the Lease of all operators of all namespaces, as one of the chart or of the reference does, for a long time.
func holdLease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	now, who := metav1.NowMicro(), "dynamo-platform-dynamo-operator-controller-manager-abc_1"
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: shippedElection, Name: election},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &who, LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
	}
	if err := harness.Client(t).Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(harness.Client(t).Delete(context.WithoutCancel(t.Context()), lease)); err != nil {
			t.Error(err)
		}
	})
	return lease
}

// waitsFor checks that pods leave a graph alone as long as somebody else holds the Lease, say for whom they wait, and work afterwards.
func waitsFor(t *testing.T, ns string, pods []*kubelet.Pod, held *coordinationv1.Lease) {
	t.Helper()
	g := frontend(ns, uniqueName())
	harness.Eventually(t, time.Minute, "a graph taken by a standby", func() (bool, string) {
		err := harness.Client(t).Create(t.Context(), g)
		return err == nil, fmt.Sprint(err)
	})
	for _, p := range pods {
		harness.Eventually(t, time.Minute, "a word about who leads", func() (bool, string) {
			log := p.Log()
			return strings.Contains(log, "Standing by") && strings.Contains(log, *held.Spec.HolderIdentity), p.LastWords(5)
		})
	}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(g), g); err != nil || len(g.Status.Conditions) > 0 {
		t.Errorf("they worked on a graph while another leads: %v %v", err, g.Status.Conditions)
	}
	if err := harness.Client(t).Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, g.Name)
}

// leads tells whether a pod says that it leads.
func leads(t *testing.T, p *kubelet.Pod, token string) bool {
	t.Helper()
	_, text := scrape(t, "https://"+p.Metrics+"/metrics", token)
	return strings.Contains(text, `leader_election_master_status{name="`+election+`"} 1`)
}

// handsOver tells the leader of some pods to end, and times the first write of its successor. What the leader wrote lies before the
// moment at which it gave the Lease back.
func handsOver(t *testing.T, ns string, k *kubelet.Kubelet, token string) {
	t.Helper()
	i := slices.IndexFunc(k.Pods, func(p *kubelet.Pod) bool { return leads(t, p, token) })
	if i < 0 {
		t.Fatal("nobody leads")
	}
	leader, name := k.Pods[i], uniqueName()
	before, requests := holder(t, shippedElection), since(t)
	told := time.Now()
	k.Tell(leader)
	// What is made while the leader is still one, it finishes itself, and nothing is left for the successor.
	harness.Eventually(t, time.Minute, "the Lease given back", func() (bool, string) { return holder(t, shippedElection) != before, before })
	if err := harness.Client(t).Create(t.Context(), frontend(ns, name)); err != nil {
		t.Fatal(err)
	}
	harness.AwaitReady(t, ns, name)
	k.Await(leader)
	lease := &coordinationv1.Lease{}
	if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: shippedElection, Name: election}, lease); err != nil {
		t.Fatal(err)
	}
	if now := holder(t, shippedElection); now == "" || now == before {
		t.Fatalf("nobody took over: %q", now)
	}
	for _, r := range requests() {
		if r.User == leader.User && r.Namespace == ns && isWrite(r) && r.Received.After(lease.Spec.AcquireTime.Time) {
			took := r.Received.Sub(told)
			t.Logf("the successor wrote %s after the leader was told to end, webhooks and all", took.Round(time.Millisecond))
			if took > stopBound {
				t.Errorf("the successor took %s", took)
			}
			return
		}
	}
	t.Error("the successor wrote nothing")
}
