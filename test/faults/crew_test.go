// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	baseModel = "acme/tiny-1b"
	// crewSize is how many workers a story about models has.
	crewSize = 2
)

// crew are the workers of a story about models, by the addresses of their pods. Its zero value is that of a story without any.
type crew map[string]member

// member is a worker, the pod that it stands for, and where it really listens.
type member struct {
	*mockengine.Worker
	pod, listens string
}

// startCrew makes pods and EndpointSlices as the cluster makes them, which has no nodes here, and puts an engine behind each.
func startCrew(t *testing.T, s scenario, ns string) crew {
	t.Helper()
	if !s.crew {
		return nil
	}
	all := crew{}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "workers", Labels: map[string]string{
			names.LabelBaseModelHash: names.ModelHash(baseModel), discoveryv1.LabelServiceName: "workers",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i := range crewSize {
		pod := makePod(t, ns, i)
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.Status.PodIP}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
		})
		worker, listens := startWorker(t, pod.Name)
		all[pod.Status.PodIP] = member{Worker: worker, pod: pod.Name, listens: listens}
	}
	if err := harness.Client(t).Create(t.Context(), slice); err != nil {
		t.Fatalf("create EndpointSlice: %v", err)
	}
	return all
}

// reach is how an operator behind a wire reaches the workers: what it asks of them is interrupted as its writes are.
func (c crew) reach(t *testing.T, wire *Wire) mockengine.Dial {
	t.Helper()
	if c == nil {
		return nil
	}
	listening := map[string]string{}
	for address, worker := range c {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		listening[address] = handOn(t, &url.URL{Scheme: "http", Host: worker.listens}, wire.WrapWorker(worker.pod, transport))
	}
	return mockengine.MapAddresses(func(address string) (string, bool) {
		host, _, err := net.SplitHostPort(address)
		where, known := listening[host]
		return where, err == nil && known
	})
}

func makePod(t *testing.T, ns string, i int) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("worker-%d", i), Labels: map[string]string{
			names.LabelGraph: "somebody", names.LabelComponent: "worker", names.LabelBaseModelHash: names.ModelHash(baseModel),
		}},
		Spec: corev1.PodSpec{
			// The volume of a token has another name every time.
			AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "main", Image: builders.Image}},
		},
	}
	if err := harness.Client(t).Create(t.Context(), pod); err != nil {
		t.Fatalf("create pod: %v", err)
	}
	pod.Status.PodIP = fmt.Sprintf("10.9.0.%d", i+1)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	if err := harness.Client(t).Status().Update(t.Context(), pod); err != nil {
		t.Fatalf("write status of pod: %v", err)
	}
	return pod
}

func startWorker(t *testing.T, name string) (worker *mockengine.Worker, address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	worker = mockengine.NewWorker(mockengine.WorkerOptions{
		Identity: mockengine.Identity{Instance: name, Namespace: "somebody", Component: "worker"},
		Model:    baseModel, Clock: clock.RealClock{}, Log: logr.Discard(), Grace: time.Second,
		Engine: mockengine.EngineOptions{Limits: mockengine.DefaultLimits(), Timing: mockengine.DefaultTiming()},
		Exit:   func(int) {},
	})
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // ends in a cleanup, which the test's own context does not outlive
	var running sync.WaitGroup
	running.Go(func() {
		if err := worker.Serve(ctx, listener); err != nil {
			t.Errorf("serve %s: %v", name, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return worker, listener.Addr().String()
}

// addTo makes part of the world what workers have, and how often it was brought to them: once is enough, whatever is
// interrupted.
func (c crew) addTo(world Snapshot) Snapshot {
	for address, worker := range c {
		has := map[string]any{}
		for name := range worker.Loaded() {
			has["has "+name] = true
		}
		counters := worker.Counters()
		for name, n := range counters.Loads {
			has["loads of "+name] = n
		}
		for name, n := range counters.Unloads {
			has["unloads of "+name] = n
		}
		world["worker "+address] = has
	}
	return world
}

func loraModel(ns, name, modelName, uri string) *v1alpha1.DynamoModel {
	return &v1alpha1.DynamoModel{ObjectMeta: named(ns, name), Spec: v1alpha1.DynamoModelSpec{
		ModelName: modelName, BaseModelName: baseModel, ModelType: v1alpha1.ModelTypeLoRA, Source: &v1alpha1.ModelSource{URI: uri},
	}}
}

func createModel(t *testing.T, ns string) {
	t.Helper()
	makeModel(t, loraModel(ns, "sql", "acme/sql", "s3://bucket/sql"))
}

func makeModel(t *testing.T, m *v1alpha1.DynamoModel) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), m); err != nil {
		t.Fatalf("create model: %v", err)
	}
}

func createModelReady(t *testing.T, ns string) {
	t.Helper()
	createModel(t, ns)
	modelReady(t, ns)
}

func changeModel(t *testing.T, ns, patch string) {
	t.Helper()
	m := &v1alpha1.DynamoModel{ObjectMeta: named(ns, "sql")}
	if err := harness.Client(t).Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatalf("change model: %v", err)
	}
}

func modelReady(t *testing.T, ns string) { t.Helper(); awaitModel(t, ns, "sql", metav1.ConditionTrue) }

// awaitModel waits until a model of the latest generation is ready, or says that it is not.
func awaitModel(t *testing.T, ns, name string, status metav1.ConditionStatus) {
	t.Helper()
	harness.Eventually(t, patience, "model "+name+": Ready is "+string(status), func() (bool, string) {
		m := &v1alpha1.DynamoModel{}
		if err := harness.Client(t).Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, m); err != nil {
			return false, err.Error()
		}
		c := conditions.Find(m.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == status && c.ObservedGeneration == m.Generation, fmt.Sprint(m.Status)
	})
}
