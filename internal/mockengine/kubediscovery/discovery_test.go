// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package kubediscovery

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/access"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	graph = "chat"
	model = "acme/tiny-1b"
	// patience is generous: what takes milliseconds on an idle machine takes seconds beside a compiler.
	patience = 30 * time.Second
)

// stage is a namespace with the account of a graph, as the operator renders it, and with what plays the kubelet.
type stage struct {
	t         *testing.T
	namespace string
	// config acts as the account, by a token as pods get it.
	config *rest.Config

	mu        sync.Mutex
	addresses map[string]string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, namespace: harness.Namespace(t), addresses: map[string]string{}}
	first, then := access.Discovery(s.namespace, graph)
	for _, obj := range append(first, then...) {
		s.create(obj)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: names.DiscoveryAccount(graph)}}
	token := &authenticationv1.TokenRequest{}
	if err := harness.Client(t).SubResource("token").Create(t.Context(), account, token); err != nil {
		t.Fatalf("get a token: %v", err)
	}
	s.config = rest.AnonymousClientConfig(harness.RESTConfig(t, "admin"))
	s.config.BearerToken = token.Status.Token
	return s
}

func (s *stage) create(obj client.Object) {
	s.t.Helper()
	if err := harness.Client(s.t).Create(s.t.Context(), obj); err != nil {
		s.t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

func (s *stage) discovery() *Discovery {
	s.t.Helper()
	d, err := New(s.config, s.namespace)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// pod makes a pod of a worker, which nothing runs.
func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: corev1.PodSpec{
			ServiceAccountName: names.DiscoveryAccount(graph), Containers: []corev1.Container{{Name: "main", Image: "mocker"}},
		},
	}
	s.create(pod)
	return pod
}

// endpoints makes the EndpointSlice of a component, as the Service of the operator would lead to.
func (s *stage) endpoints(name string, labels map[string]string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To(names.PortSystem), Port: ptr.To[int32](names.PortSystemNumber)}},
	}
	s.create(slice)
	return slice
}

func discoverable() map[string]string {
	return map[string]string{names.LabelDiscoveryBackend: names.DiscoveryKubernetes, names.LabelDiscoveryEnabled: names.True}
}

// worker starts the worker of a pod on the loopback and has the address of the pod mapped to it.
func (s *stage) worker(pod *corev1.Pod, address string, edit ...func(*mockengine.WorkerOptions)) (w *mockengine.Worker, url string, stop func()) {
	s.t.Helper()
	publisher, err := s.discovery().Publisher(pod.Name, pod.UID)
	if err != nil {
		s.t.Fatal(err)
	}
	o := mockengine.WorkerOptions{
		Identity: mockengine.Identity{Instance: pod.Name, Namespace: "dyn", Component: "backend"}, Model: model,
		Clock: clock.RealClock{}, Publisher: publisher, Republish: 50 * time.Millisecond, Grace: time.Second,
		Engine: mockengine.EngineOptions{
			Limits: mockengine.DefaultLimits(), Timing: mockengine.DefaultTiming(), Clock: mockengine.NewVirtualClock(time.Unix(0, 0)),
		},
	}
	for _, e := range edit {
		e(&o)
	}
	w = mockengine.NewWorker(o)
	host, stop := serve(s.t, w.Serve)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[address+":9090"] = host
	return w, "http://" + host, stop
}

func (s *stage) lookup(address string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to, ok := s.addresses[address]
	return to, ok
}

// frontend starts a front end and returns its address.
func (s *stage) frontend() string {
	s.t.Helper()
	workers := mockengine.NewClient(mockengine.MapAddresses(s.lookup))
	s.t.Cleanup(workers.CloseIdleConnections)
	f := mockengine.NewFrontend(mockengine.FrontendOptions{
		Namespace: "dyn", Discovery: s.discovery(), Client: workers, Clock: clock.RealClock{}, Grace: time.Second,
	})
	host, _ := serve(s.t, f.Serve)
	return "http://" + host
}

func serve(t *testing.T, run func(context.Context, net.Listener) error) (host string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ends in a cleanup, which the test's own context does not outlive
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx, listener); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// awaitModels waits until a front end lists exactly these models.
func awaitModels(t *testing.T, frontend string, want ...string) {
	t.Helper()
	harness.Eventually(t, patience, "models", func() (bool, string) {
		got := []string{}
		var list struct{ Data []struct{ ID string } }
		call(t, http.MethodGet, frontend+"/v1/models", "", &list)
		for _, m := range list.Data {
			got = append(got, m.ID)
		}
		diff := cmp.Diff(append([]string{}, want...), got)
		return diff == "", diff
	})
}

// call sends a request, decodes the answer and returns its code.
func call(t *testing.T, method, url, body string, into any) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return answer.StatusCode
}

func (s *stage) metadata(name string) (*v1alpha1.DynamoWorkerMetadata, error) {
	m := &v1alpha1.DynamoWorkerMetadata{}
	return m, harness.Client(s.t).Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, m)
}

func (s *stage) awaitMetadata(name string) *v1alpha1.DynamoWorkerMetadata {
	s.t.Helper()
	var m *v1alpha1.DynamoWorkerMetadata
	harness.Eventually(s.t, patience, "metadata of "+name, func() (bool, string) {
		var err error
		if m, err = s.metadata(name); err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	return m
}

func TestAFrontEndFindsWorkersUnderTheRightsOfTheGraphsAccount(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	frontend := s.frontend()
	awaitModels(t, frontend)
	a, b := s.pod("chat-decode-a"), s.pod("chat-decode-b")
	_, _, _ = s.worker(a, "10.1.0.1")
	wb, url, stop := s.worker(b, "10.1.0.2")
	s.awaitMetadata(a.Name)
	s.awaitMetadata(b.Name)
	awaitModels(t, frontend) // published, but in no slice
	slice := s.endpoints("chat-decode-1", discoverable(),
		endpoint(a.Name, string(a.UID), "10.1.0.1"), unready(endpoint(b.Name, string(b.UID), "10.1.0.2")))
	awaitModels(t, frontend, model)
	var loaded struct{ Status string }
	call(t, http.MethodPost, url+"/v1/loras", `{"lora_name":"acme/x","source":{"uri":"s3://x"}}`, &loaded)
	if loaded.Status != "success" {
		t.Fatalf("load: %+v", loaded)
	}
	awaitModels(t, frontend, model) // the worker that has it is not ready
	slice.Endpoints[1].Conditions.Ready = ptr.To(true)
	if err := harness.Client(t).Update(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
	awaitModels(t, frontend, model, "acme/x")
	var said struct {
		Choices []struct{ Text string }
	}
	for range 3 {
		if code := call(t, http.MethodPost, frontend+"/v1/completions", `{"model":"acme/x","prompt":"hi","max_tokens":2}`, &said); code != 200 {
			t.Fatalf("ask the adapter: %d", code)
		}
	}
	if got := wb.Counters().Requests["acme/x"]; got != 3 {
		t.Errorf("the worker with the adapter got %d of three requests", got)
	}
	stop()
	awaitModels(t, frontend, model)
	if _, err := s.metadata(b.Name); !apierrors.IsNotFound(err) {
		t.Errorf("a worker that was stopped left its metadata: %v", err)
	}
}

func TestSlicesWithoutTheDiscoveryLabelsAreNotSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	frontend := s.frontend()
	hidden, seen := s.pod("hidden"), s.pod("seen")
	s.worker(hidden, "10.1.0.1", func(o *mockengine.WorkerOptions) { o.Model = "hidden/model" })
	s.worker(seen, "10.1.0.2")
	half := discoverable()
	delete(half, names.LabelDiscoveryEnabled)
	s.endpoints("hidden", half, endpoint(hidden.Name, string(hidden.UID), "10.1.0.1"))
	s.endpoints("seen", discoverable(), endpoint(seen.Name, string(seen.UID), "10.1.0.2"))
	awaitModels(t, frontend, model)
}

func TestMetadataIsNamedAfterThePodAndOwnedByIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pod := s.pod("chat-decode-0")
	w, _, _ := s.worker(pod, "10.1.0.1")
	m := s.awaitMetadata(pod.Name)
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)}}
	if diff := cmp.Diff(want, m.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	var got mockengine.Metadata
	if err := json.Unmarshal(m.Spec.Data.Raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.Metadata(), got); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

func TestAnUnchangedWorkerWritesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	publisher, err := s.discovery().Publisher("p", "")
	if err != nil {
		t.Fatal(err)
	}
	publish := func(models ...string) string {
		m := mockengine.Metadata{Endpoints: map[string]mockengine.EndpointEntry{}, ModelCards: map[string]mockengine.ModelEntry{}}
		for _, name := range models {
			m.ModelCards[name] = mockengine.ModelEntry{Card: mockengine.Card{Name: name}}
		}
		if err := publisher.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		stored, err := s.metadata("p")
		if err != nil {
			t.Fatal(err)
		}
		return stored.ResourceVersion
	}
	first, again, other := publish("a", "b"), publish("a", "b"), publish("a")
	if first != again || again == other {
		t.Errorf("versions are %s, %s and, after a change, %s", first, again, other)
	}
	if stored, _ := s.metadata("p"); strings.Contains(string(stored.Spec.Data.Raw), `"b"`) {
		t.Errorf("what is gone is still published: %s", stored.Spec.Data.Raw)
	}
	for range 2 {
		if err := publisher.Withdraw(t.Context()); err != nil {
			t.Errorf("withdraw: %v", err)
		}
	}
}

func TestAWorkerWhoseMetadataWasDeletedPublishesItself(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pod := s.pod("chat-decode-0")
	s.worker(pod, "10.1.0.1")
	before := s.awaitMetadata(pod.Name)
	if err := harness.Client(t).Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if after := s.awaitMetadata(pod.Name); after.UID == before.UID {
		t.Error("the deleted object is still there")
	}
}

func TestASuccessorOfTheSameNameTakesTheMetadataOver(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	frontend := s.frontend()
	old, err := s.discovery().Publisher("chat-decode-0", "an-earlier-uid")
	if err != nil {
		t.Fatal(err)
	}
	stale := mockengine.NewWorker(mockengine.WorkerOptions{
		Identity: mockengine.Identity{Instance: "chat-decode-0", Namespace: "dyn", Component: "backend"}, Model: "old/model", Clock: clock.RealClock{},
	})
	if err := old.Publish(t.Context(), stale.Metadata()); err != nil {
		t.Fatal(err)
	}
	pod := s.pod("chat-decode-0")
	s.endpoints("chat-decode-1", discoverable(), endpoint(pod.Name, string(pod.UID), "10.1.0.1"))
	awaitModels(t, frontend) // ready, but what is published is the predecessor's
	s.worker(pod, "10.1.0.1")
	awaitModels(t, frontend, model)
	if owners := s.awaitMetadata(pod.Name).OwnerReferences; len(owners) != 1 || owners[0].UID != pod.UID {
		t.Errorf("owners are %+v", owners)
	}
}

func TestTheAccountMayDoNothingElse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	api, err := client.New(s.config, client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.List(t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace)); !apierrors.IsForbidden(err) {
		t.Errorf("it may list pods: %v", err)
	}
	other := harness.Namespace(t)
	if err := api.List(t.Context(), &v1alpha1.DynamoWorkerMetadataList{}, client.InNamespace(other)); !apierrors.IsForbidden(err) {
		t.Errorf("it may list metadata of another namespace: %v", err)
	}
}
