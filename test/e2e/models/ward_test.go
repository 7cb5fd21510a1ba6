// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine/kubediscovery"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	base     = "acme/tiny-1b"
	patience = time.Minute
)

// ward is a namespace with a graph, and an engine behind every one of its pods that serve the base model.
type ward struct {
	*testing.T
	namespace string
	operator  *harness.Operator

	// made changes every engine that is made.
	made []func(*mockengine.WorkerOptions)

	mu      sync.Mutex
	engines map[string]*engine // by the address of the pod
}

// engine is what runs in a pod.
type engine struct {
	*mockengine.Worker
	pod     string
	address string
	stop    func()
}

func serving(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ModelRef = &v1alpha1.ModelReference{Name: base}
}

// newWard makes a graph with so many workers, and waits until each has an engine and the graph is ready.
func newWard(t *testing.T, workers int32, made ...func(*mockengine.WorkerOptions)) *ward {
	t.Helper()
	w := &ward{T: t, namespace: harness.Namespace(t), engines: map[string]*engine{}, made: made}
	w.startOperator()
	w.create(builders.TwoComponents(w.namespace, "chat").Change("Decode", serving, builders.Replicas(workers)).Obj())
	harness.AwaitReady(w.T, w.namespace, "chat")
	w.staff(int(workers))
	w.awaitBehind(int(workers))
	return w
}

// awaitBehind waits until so many pods are ready behind the Service of the base model: a model is ready when all are that it
// knows of, and must not be taken for ready with fewer.
func (w *ward) awaitBehind(want int) {
	w.Helper()
	harness.Eventually(w.T, patience, "pods behind the Service of the base model", func() (bool, string) {
		var slices discoveryv1.EndpointSliceList
		err := harness.Client(w.T).List(w.Context(), &slices, client.InNamespace(w.namespace), client.MatchingLabels{names.LabelBaseModelHash: names.ModelHash(base)})
		if err != nil {
			w.Fatal(err)
		}
		ready := map[string]bool{} // a pod can be behind several Services
		for _, s := range slices.Items {
			for _, e := range s.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready && e.TargetRef != nil {
					ready[e.TargetRef.Name] = true
				}
			}
		}
		return len(ready) == want, fmt.Sprintf("%d of %d", len(ready), want)
	})
}

// startOperator starts an operator that reaches the engines.
func (w *ward) startOperator() {
	w.Helper()
	w.operator = harness.StartOperator(w.T, w.namespace, harness.WithWorkers(mockengine.MapAddresses(w.lookup)))
}

// lookup finds the engine behind the address of a pod, whatever the port.
func (w *ward) lookup(address string) (string, bool) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.engines[host]
	if e == nil {
		return "", false
	}
	return e.address, true
}

func (w *ward) create(obj client.Object) {
	w.Helper()
	if err := harness.Client(w.T).Create(w.Context(), obj); err != nil {
		w.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// staff puts an engine behind every pod that has none, until so many have one.
func (w *ward) staff(want int) {
	w.Helper()
	harness.Eventually(w.T, patience, "an engine in every pod", func() (bool, string) {
		pods := w.pods()
		for i := range pods {
			pod := &pods[i]
			if _, known := w.lookup(net.JoinHostPort(pod.Status.PodIP, "0")); !known && pod.Status.PodIP != "" && pod.DeletionTimestamp == nil {
				w.start(pod)
			}
		}
		return len(w.all()) >= want, fmt.Sprintf("%d pods", len(pods))
	})
}

// pods are those that serve the base model.
func (w *ward) pods() []corev1.Pod {
	w.Helper()
	var pods corev1.PodList
	err := harness.Client(w.T).List(w.Context(), &pods, client.InNamespace(w.namespace), client.MatchingLabels{names.LabelBaseModelHash: names.ModelHash(base)})
	if err != nil {
		w.Fatal(err)
	}
	return pods.Items
}

// all are the engines that run.
func (w *ward) all() []*engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*engine
	for _, e := range w.engines {
		all = append(all, e)
	}
	return all
}

// start puts an engine into a pod, in place of the one that was there.
func (w *ward) start(pod *corev1.Pod) *engine {
	w.Helper()
	discovery, err := kubediscovery.New(w.account(), w.namespace)
	if err != nil {
		w.Fatal(err)
	}
	publisher, err := discovery.Publisher(pod.Name, pod.UID)
	if err != nil {
		w.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(w.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	options := mockengine.WorkerOptions{
		Identity: mockengine.Identity{Instance: pod.Name, Namespace: w.namespace + "-chat", Component: pod.Labels[names.LabelComponent]},
		Model:    base, Clock: clock.RealClock{}, Log: logr.Discard(), Publisher: publisher, Grace: time.Second,
		Engine: mockengine.EngineOptions{Limits: mockengine.DefaultLimits(), Timing: mockengine.DefaultTiming()},
		Exit:   func(int) {},
	}
	for _, change := range w.made {
		change(&options)
	}
	e := &engine{pod: pod.Name, address: listener.Addr().String(), Worker: mockengine.NewWorker(options)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, listener) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("engine of %s: %v", pod.Name, err)
		}
	})
	w.Cleanup(e.stop)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines[pod.Status.PodIP] = e
	return e
}

// restart ends the engine of a pod and starts another, as a kubelet does with a container: the pod stays, and what was in
// memory is gone.
func (w *ward) restart(old *engine) *engine {
	w.Helper()
	old.stop()
	pod := &corev1.Pod{}
	w.read(old.pod, pod)
	w.setReady(pod, false)
	fresh := w.start(pod)
	w.setReady(pod, true)
	return fresh
}

// setReady writes the status of a pod. A pod that gets ready has been started once more.
func (w *ward) setReady(pod *corev1.Pod, ready bool) {
	w.Helper()
	before := pod.DeepCopy()
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status = status
		}
	}
	for i := range pod.Status.ContainerStatuses {
		pod.Status.ContainerStatuses[i].Ready = ready
		if ready {
			pod.Status.ContainerStatuses[i].RestartCount++
		}
	}
	if err := harness.Client(w.T).Status().Patch(w.Context(), pod, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) read(name string, into client.Object) {
	w.Helper()
	if err := harness.Client(w.T).Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, into); err != nil {
		w.Fatalf("read %s: %v", name, err)
	}
}

// account is what a pod of the graph can do: the graph's own ServiceAccount and nothing else.
func (w *ward) account() *rest.Config {
	w.Helper()
	account := &corev1.ServiceAccount{}
	w.read(names.DiscoveryAccount("chat"), account)
	request := &authenticationv1.TokenRequest{}
	if err := harness.Client(w.T).SubResource("token").Create(w.Context(), account, request); err != nil {
		w.Fatal(err)
	}
	config := rest.AnonymousClientConfig(harness.RESTConfig(w.T, "anybody"))
	config.BearerToken = request.Status.Token
	return config
}

// adapter is a model of one name.
func (w *ward) adapter(name, uri string) *v1alpha1.DynamoModel {
	return &v1alpha1.DynamoModel{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.DynamoModelSpec{
			ModelName: "acme/" + name, BaseModelName: base, ModelType: v1alpha1.ModelTypeLoRA, Source: &v1alpha1.ModelSource{URI: uri},
		},
	}
}

// await waits until a model is as asked, and returns it.
func (w *ward) await(name, what string, is func(*v1alpha1.DynamoModel) bool) *v1alpha1.DynamoModel {
	w.Helper()
	m := &v1alpha1.DynamoModel{}
	harness.Eventually(w.T, patience, "model "+name+" "+what, func() (bool, string) {
		w.read(name, m)
		ready := conditionOf(m)
		return is(m), ready.Reason + ": " + ready.Message
	})
	return m
}

func (w *ward) awaitReady(name string) *v1alpha1.DynamoModel {
	w.Helper()
	return w.await(name, "ready", func(m *v1alpha1.DynamoModel) bool {
		c := conditionOf(m)
		return c.Status == metav1.ConditionTrue && c.ObservedGeneration == m.Generation
	})
}

func (w *ward) awaitMessage(name, text string) *v1alpha1.DynamoModel {
	w.Helper()
	return w.await(name, "says "+text, func(m *v1alpha1.DynamoModel) bool { return contains(m, text) })
}

// change edits a model as a user does.
func (w *ward) change(name, patch string) {
	w.Helper()
	m := &v1alpha1.DynamoModel{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	if err := harness.Client(w.T).Patch(w.Context(), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) remove(name string) {
	w.Helper()
	m := &v1alpha1.DynamoModel{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	if err := harness.Client(w.T).Delete(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

func (w *ward) awaitGone(name string, limit time.Duration) {
	w.Helper()
	harness.Eventually(w.T, limit, "model "+name+" is gone", func() (bool, string) {
		err := harness.Client(w.T).Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, &v1alpha1.DynamoModel{})
		return client.IgnoreNotFound(err) == nil && err != nil, "still there"
	})
}
