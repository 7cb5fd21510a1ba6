// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	examples = "../../../examples/scaling/"
	// worker is the service that the example scales, and adapter its adapter.
	worker  = "VllmWorker"
	adapter = "scaling-vllmworker"

	// patience covers an autoscaler that has just met a kind it did not know, on two cores.
	patience = 2 * time.Minute
)

func TestTheAutoscalerOfKubernetesScalesAServiceUpAndDown(t *testing.T) {
	t.Parallel()
	ns := harness.Namespace(t)
	load := serveMetrics(t, ns)
	load.value.Store(10)
	harness.StartOperator(t, ns)
	graph := decode[v1alpha1.DynamoGraphDeployment](t, ns, "graph.yaml")
	create(t, graph)
	harness.AwaitReady(t, ns, graph.Name)
	ofAdapter := record(t, ns, &v1alpha1.DynamoGraphDeploymentScalingAdapterList{})
	ofGraph := record(t, ns, &v1alpha1.DynamoGraphDeploymentList{})
	scaler := decode[autoscalingv2.HorizontalPodAutoscaler](t, ns, "autoscaler.yml")
	scaler.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0)) // nobody waits five minutes here
	create(t, scaler)
	awaitScaler(t, scaler, 1)

	load.value.Store(40)
	awaitReplicas(t, ns, 4)
	awaitScaler(t, scaler, 4)
	harness.AwaitReady(t, ns, graph.Name)
	load.value.Store(20)
	awaitReplicas(t, ns, 2)
	awaitScaler(t, scaler, 2)
	harness.AwaitReady(t, ns, graph.Name)

	ofAdapter.await(t, "adapter", 1, 4, 2)
	ofGraph.await(t, "graph", 1, 4, 2)
}

// awaitReplicas waits until the adapter reports a number of replicas and selects just as many pods.
func awaitReplicas(t *testing.T, ns string, want int) {
	t.Helper()
	target := &v1alpha1.DynamoGraphDeploymentScalingAdapter{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: adapter}}
	harness.Eventually(t, patience, fmt.Sprintf("%d replicas", want), func() (bool, string) {
		var scale autoscalingv1.Scale
		if err := harness.Client(t).SubResource("scale").Get(t.Context(), target, &scale); err != nil {
			return false, err.Error()
		}
		selector, err := labels.Parse(scale.Status.Selector)
		if err != nil {
			return false, err.Error()
		}
		var pods corev1.PodList
		if err := harness.Client(t).List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return false, err.Error()
		}
		return int(scale.Status.Replicas) == want && len(pods.Items) == want,
			fmt.Sprintf("%d wanted, %d reported, %d pods", scale.Spec.Replicas, scale.Status.Replicas, len(pods.Items))
	})
}

// awaitScaler waits until the autoscaler says that it wants so many replicas and has them.
func awaitScaler(t *testing.T, scaler *autoscalingv2.HorizontalPodAutoscaler, want int32) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("the autoscaler has %d replicas", want), func() (bool, string) {
		if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(scaler), scaler); err != nil {
			return false, err.Error()
		}
		s := scaler.Status
		return s.CurrentReplicas == want && s.DesiredReplicas == want,
			fmt.Sprintf("%d are there, %d are desired: %v", s.CurrentReplicas, s.DesiredReplicas, s.Conditions)
	})
}

// history is the numbers that an object had, each once in a row.
type history struct {
	mu      sync.Mutex
	numbers []int32
}

// await waits until the numbers are these and no others: had anybody reverted one in between, it would be among them.
func (h *history) await(t *testing.T, whose string, want ...int32) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "the history of the "+whose, func() (bool, string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return slices.Equal(want, h.numbers), fmt.Sprintf("it had %v, want %v", h.numbers, want)
	})
}

func (h *history) add(object any) {
	var number int32
	switch o := object.(type) {
	case *v1alpha1.DynamoGraphDeploymentScalingAdapter:
		number = o.Spec.Replicas
	case *v1alpha1.DynamoGraphDeployment:
		number = *o.Spec.Services[worker].Replicas
	default:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.numbers) == 0 || h.numbers[len(h.numbers)-1] != number {
		h.numbers = append(h.numbers, number)
	}
}

// record watches the objects of a kind, of which there is one, until the test ends.
func record(t *testing.T, ns string, kind client.ObjectList) *history {
	t.Helper()
	api, err := client.NewWithWatch(harness.RESTConfig(t, localcluster.UserAdmin), client.Options{Scheme: harness.Scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	w, err := api.Watch(context.WithoutCancel(t.Context()), kind, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	h := &history{}
	var running sync.WaitGroup
	running.Go(func() {
		for event := range w.ResultChan() {
			if event.Type != watch.Deleted {
				h.add(event.Object)
			}
		}
	})
	t.Cleanup(func() {
		w.Stop()
		running.Wait()
	})
	return h
}

func create(t *testing.T, obj client.Object) {
	t.Helper()
	if err := harness.Client(t).Create(t.Context(), obj); err != nil {
		t.Fatalf("create %s: %v", obj.GetName(), err)
	}
}

// decode reads a manifest of the example for the test's namespace.
func decode[T any, P interface {
	*T
	client.Object
}](t *testing.T, ns, file string) P {
	t.Helper()
	content, err := os.ReadFile(examples + file)
	if err != nil {
		t.Fatal(err)
	}
	object := P(new(T))
	if err := yaml.UnmarshalStrict(content, object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	object.SetNamespace(ns)
	return object
}
