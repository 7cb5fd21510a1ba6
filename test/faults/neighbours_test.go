// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// noise is how many graphs there are of which nothing can be made, in a full run and in any, and loud how many services each has.
	noise, littleNoise = 4, 1
	loud               = 25
	// neighbours are how many graphs are beside it.
	neighbours, fewNeighbours = 200, 20
	// slower is by how much the slowest changes of neighbours may be slower than without the noise.
	slower = 1.1
	// jitter is what a change may take longer for no reason.
	jitter = 100 * time.Millisecond
)

// TestNeighboursOfAFailingGraphDoNotWaitForIt runs beside no other test, because it measures.
func TestNeighboursOfAFailingGraphDoNotWaitForIt(t *testing.T) {
	b := theBed(t)
	noises, graphs := littleNoise, fewNeighbours
	if *full {
		noises, graphs = noise, neighbours
	}
	r := &Result{Goal: "L20", Scenario: fmt.Sprintf("%d graphs", graphs), Fault: fmt.Sprintf("%d components beside them are refused", noises*loud)}
	if takesLong() || !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	ns, wire := b.begin(t)
	b.makeCrowd(t, ns, graphs)
	b.rest(t, ns, wire)
	alone := b.lookAround(t, ns, graphs)
	wire.Arm(Fault{
		Kind: Refused, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Concerns: func(c Call) bool {
			return strings.HasPrefix(c.Name, "noisy-") && c.Resource == components && c.IsWrite()
		},
	})
	for n := range noises {
		noisy := builders.Graph(ns, fmt.Sprint("noisy-", n))
		for i := range loud {
			noisy.Service(fmt.Sprintf("w%d", i), v1alpha1.ComponentTypeWorker)
		}
		create(t, noisy.Obj())
	}
	harness.Eventually(t, patience, "the noise begins", func() (bool, string) {
		return len(wire.Fired()) >= noises*loud, fmt.Sprint(len(wire.Fired()))
	})
	beside := b.lookAround(t, ns, graphs)
	r.Faults, r.Seconds = len(wire.Fired()), beside.Seconds()
	t.Logf("the slowest changes took %s alone and %s beside %d refusals", alone, beside, r.Faults)
	if float64(beside) > slower*float64(alone)+float64(jitter+unlessAlone(slack)) {
		t.Errorf("changes take %s instead of %s", beside, alone)
	}
	wire.Clear()
	allReady(t, ns, graphs+noises)
	b.rest(t, ns, wire)
}

// lookAround changes every graph of a crowd and returns how long the slowest took until their Deployment followed, but for one
// in a hundred.
func (b *bed) lookAround(t *testing.T, ns string, graphs int) time.Duration {
	t.Helper()
	var took []time.Duration
	for i := range graphs {
		key := client.ObjectKey{Namespace: ns, Name: fmt.Sprintf("g%d", i)}
		var want int32
		harness.Change(t, key, func(g *v1alpha1.DynamoGraphDeployment) {
			want = ptr.Deref(g.Spec.Services["Frontend"].Replicas, 1) + 1
			g.Spec.Services["Frontend"].Replicas = &want
		})
		began := time.Now()
		harness.Eventually(t, patience, "a neighbour follows", func() (bool, string) {
			d := &appsv1.Deployment{}
			err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: key.Name + "-frontend"}, d)
			return err == nil && *d.Spec.Replicas == want, fmt.Sprint(err)
		})
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[(len(took)*99-1)/100]
}

const (
	// held is how many graphs wait for a webhook of others: they have more components than there are passes at once.
	held = 10
	// passes is how many components are looked at at once.
	passes = 16
	// besideHeld is how soon a graph beside them is Ready.
	besideHeld = 5 * time.Second
)

// TestASlowWebhookOfOthersHoldsNobodyElse has Deployments of many graphs wait for a webhook that never answers. It measures, so that a
// full run has it run beside no other test.
func TestASlowWebhookOfOthersHoldsNobodyElse(t *testing.T) {
	besideOthers(t)
	b := theBed(t)
	r := &Result{Goal: "L5", Scenario: "create deployments", Fault: "webhook of others does not answer"}
	if !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	ns, wire := b.begin(t)
	var slow []string
	for i := range held {
		slow = append(slow, fmt.Sprint("slow", i))
	}
	asked, answer := hang(t, ns, slow...)
	for _, graph := range slow {
		create(t, builders.TwoComponents(ns, graph).Obj())
	}
	for r.Faults < passes {
		select {
		case <-asked:
			r.Faults++
		case <-time.After(patience):
			t.Fatalf("the webhook was asked %d times, want %d", r.Faults, passes)
		}
	}
	began := time.Now()
	create(t, builders.TwoComponents(ns, "chat").Obj())
	ready(t, ns)
	took := time.Since(began)
	t.Logf("another graph took %s", took.Round(time.Millisecond))
	if took > besideHeld+unlessAlone(slack) {
		t.Errorf("another graph took %s", took)
	}
	waiting := &appsv1.DeploymentList{}
	if err := harness.Client(t).List(t.Context(), waiting, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, d := range waiting.Items {
		if strings.HasPrefix(d.Name, "slow") {
			t.Fatal("another graph was Ready only when the webhook had let a slow one go")
		}
	}
	answer()
	began = time.Now()
	for _, graph := range slow {
		harness.AwaitReady(t, ns, graph)
	}
	r.Seconds = time.Since(began).Seconds()
	b.rest(t, ns, wire)
}

// hang has the API server ask a webhook about new Deployments of some graphs. The channel tells that it was asked, and the webhook
// answers nobody before the function is called.
func hang(t *testing.T, ns string, slow ...string) (asked <-chan struct{}, answer func()) {
	t.Helper()
	told, open := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- struct{}{}
		select {
		case <-open:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusTeapot) // an answer that says nothing, which the policy below ignores
	}))
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "slow.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone),
			TimeoutSeconds: new(int32(30)), FailurePolicy: new(admissionv1.Ignore),
			ClientConfig: admissionv1.WebhookClientConfig{
				URL:      new(server.URL),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": ns}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: names.LabelGraph, Operator: metav1.LabelSelectorOpIn, Values: slow},
			}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	if err := harness.Client(t).Create(t.Context(), hook); err != nil {
		t.Fatal(err)
	}
	let := sync.OnceFunc(func() { close(open) })
	answer = func() {
		if err := client.IgnoreNotFound(harness.Client(t).Delete(t.Context(), hook)); err != nil {
			t.Error(err)
		}
		let()
	}
	t.Cleanup(func() {
		let()
		server.Close()
	})
	return told, answer
}
