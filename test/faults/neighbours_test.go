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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
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
	// jitter is what the slowest changes may take longer for no reason, where there are few of them, and lessJitter where there are
	// thousands: so much do two halves of the same ones differ.
	jitter, lessJitter = 100 * time.Millisecond, 5 * time.Millisecond
	// settled is how often graphs that fail are tried until pauses do not grow any more, and sweeps how often all neighbours are changed
	// then before it is the other's turn.
	settled, sweeps = 7, 2
)

// TestNeighboursOfAFailingGraphDoNotWaitForIt changes neighbours by turns beside graphs that fail and beside the same graphs while they
// are paused, so that what else happens on the machine hits both. It runs beside no other test, because it measures.
func TestNeighboursOfAFailingGraphDoNotWaitForIt(t *testing.T) {
	b := theBed(t)
	noises, graphs := littleNoise, fewNeighbours
	if *full {
		noises, graphs = noise, neighbours
	}
	r := &Result{Goal: "L20", Scenario: fmt.Sprintf("%d graphs", graphs), Fault: fmt.Sprintf("%d components beside them are refused", noises*loud)}
	granted, tries, times := jitter+unlessAlone(slack), 1, 1
	if *beside > 0 {
		r.Fault, r.Graphs, r.Lasting = fmt.Sprintf("%s for %s", r.Fault, *beside), graphs, *beside
		granted, tries, times = lessJitter, settled, sweeps
	}
	if takesLong() || !b.isWanted(t, *r) {
		return
	}
	b.record(t, r)
	ns, wire := b.begin(t)
	b.makeCrowd(t, ns, graphs)
	s := &street{t: t, ns: ns, graphs: graphs, deployments: follow(t, ns)}
	s.makeNoise(wire, noises)
	var alone, amid []time.Duration
	for end := time.Now().Add(2 * *beside); len(amid) == 0 || time.Now().Before(end); {
		s.hush(noises, true)
		b.rest(t, ns, wire)
		alone = append(alone, s.lookAround(times)...)
		fired := len(wire.Fired())
		s.hush(noises, false)
		harness.Eventually(t, patience, "the noise begins", func() (bool, string) {
			return len(wire.Fired()) >= fired+tries*noises*loud, fmt.Sprint(len(wire.Fired()))
		})
		amid = append(amid, s.lookAround(times)...)
	}
	quiet, noisy := p99(alone), p99(amid)
	r.Faults, r.Seconds = len(wire.Fired()), noisy.Seconds()
	r.Note = fmt.Sprintf("p99 %.1f ms alone, %.1f ms beside", quiet.Seconds()*1000, noisy.Seconds()*1000)
	t.Logf("the slowest of %d changes took %s alone, and of %d %s beside %d refusals", len(alone), quiet, len(amid), noisy, r.Faults)
	if float64(noisy) > slower*float64(quiet)+float64(granted) {
		t.Errorf("changes take %s instead of %s", noisy, quiet)
	}
	wire.Clear()
	allReady(t, ns, graphs+noises)
	b.rest(t, ns, wire)
}

// street is a namespace with graphs that are changed and graphs that fail.
type street struct {
	t      *testing.T
	ns     string
	graphs int
	// deployments tells of every change of a Deployment.
	deployments <-chan watch.Event
}

// makeNoise makes graphs of which no component can be made. They are paused.
func (s *street) makeNoise(wire *Wire, noises int) {
	s.t.Helper()
	wire.Arm(Fault{
		Kind: Refused, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Concerns: func(c Call) bool {
			return strings.HasPrefix(c.Name, "noisy-") && c.Resource == components && c.IsWrite()
		},
	})
	for n := range noises {
		noisy := builders.Graph(s.ns, fmt.Sprint("noisy-", n))
		for i := range loud {
			noisy.Service(fmt.Sprintf("w%d", i), v1alpha1.ComponentTypeWorker)
		}
		g := noisy.Obj()
		g.Annotations = map[string]string{names.AnnotationReconcile: names.Paused}
		create(s.t, g)
	}
}

// hush pauses the graphs that fail, or has them go on.
func (s *street) hush(noises int, quiet bool) {
	s.t.Helper()
	for n := range noises {
		harness.Change(s.t, client.ObjectKey{Namespace: s.ns, Name: fmt.Sprint("noisy-", n)}, func(g *v1alpha1.DynamoGraphDeployment) {
			delete(g.Annotations, names.AnnotationReconcile)
			if quiet {
				g.Annotations = map[string]string{names.AnnotationReconcile: names.Paused}
			}
		})
	}
}

// lookAround changes every graph so many times, one after another, and returns how long each took until its Deployment followed.
func (s *street) lookAround(times int) []time.Duration {
	s.t.Helper()
	took := make([]time.Duration, 0, times*s.graphs)
	for i := range times * s.graphs {
		key := client.ObjectKey{Namespace: s.ns, Name: fmt.Sprintf("g%d", i%s.graphs)}
		var want int32
		harness.Change(s.t, key, func(g *v1alpha1.DynamoGraphDeployment) {
			want = ptr.Deref(g.Spec.Services["Frontend"].Replicas, 1)%5 + 1
			g.Spec.Services["Frontend"].Replicas = &want
		})
		began := time.Now()
		s.awaitReplicas(key.Name+"-frontend", want)
		took = append(took, time.Since(began))
	}
	return took
}

// awaitReplicas waits until a Deployment is said to have so many replicas. Nobody asks for it, so that the answer has no grain.
func (s *street) awaitReplicas(name string, want int32) {
	s.t.Helper()
	tooLate := time.NewTimer(patience)
	defer tooLate.Stop()
	for {
		select {
		case event, open := <-s.deployments:
			if !open {
				s.t.Fatal("the watch of Deployments has ended")
			}
			if d, ok := event.Object.(*appsv1.Deployment); ok && d.Name == name && *d.Spec.Replicas == want {
				return
			}
		case <-tooLate.C:
			s.t.Fatalf("%s does not follow", name)
		}
	}
}

// follow watches the Deployments of a namespace until the test ends.
func follow(t *testing.T, ns string) <-chan watch.Event {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := api.Watch(t.Context(), &appsv1.DeploymentList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w.ResultChan()
}

// p99 is what all but one in a hundred stay below.
func p99(took []time.Duration) time.Duration {
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
