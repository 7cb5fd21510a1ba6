// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"encoding/json"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// TestFullCluster starts the whole set once, because it takes longest, and looks at what it is for.
func TestFullCluster(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	cluster := mustStart(t, Options{
		StateDir: state, Throwaway: true, Nodes: 2, GPUs: 8, ControllerManager: true, Scheduler: true, LWS: true, Audit: true,
	})
	api := clientOf(t, cluster, UserAdmin)
	eventually(t, "default service account", func() bool {
		_, err := api.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	t.Run("status names every component and node", func(t *testing.T) { checkFullStatus(t, state) })
	t.Run("pods get GPUs of simulated nodes and become ready", func(t *testing.T) { checkGPUPod(t, api) })
	t.Run("a held pod is left alone", func(t *testing.T) { checkHeldPod(t, api) })
	t.Run("a job completes", func(t *testing.T) { checkJob(t, api) })
	t.Run("a LeaderWorkerSet becomes ready", func(t *testing.T) { checkLeaderWorkerSet(t, cluster) })
	t.Run("a restarted kwok goes on at once", func(t *testing.T) { checkRestartedKwok(t, cluster, api) })
}

func checkFullStatus(t *testing.T, state string) {
	status, err := ReadStatus(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	if !status.Healthy() || len(status.Health) != 6 {
		t.Errorf("components: %+v, want six healthy ones", status.Health)
	}
	if len(status.Nodes) != 2 {
		t.Fatalf("nodes: %+v, want two", status.Nodes)
	}
	for _, node := range status.Nodes {
		if !node.Ready || node.GPUs != 8 {
			t.Errorf("node %+v, want ready with 8 GPUs", node)
		}
	}
	if _, err := json.Marshal(status); err != nil {
		t.Errorf("status cannot be printed: %v", err)
	}
}

// testPod asks for graphics cards if gpus is not empty.
func testPod(name, gpus string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Image: "example.test/none"}},
			InitContainers: []corev1.Container{{Name: "first", Image: "example.test/none"}},
		},
	}
	if gpus != "" {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{gpuResource: resource.MustParse(gpus)}
	}
	return pod
}

func createPod(t *testing.T, api *kubernetes.Clientset, pod *corev1.Pod) {
	t.Helper()
	if _, err := api.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitPod waits until the pod satisfies the condition and returns it.
func awaitPod(t *testing.T, api *kubernetes.Clientset, name string, condition func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "awaited state of pod "+name, func() bool {
		var err error
		pod, err = api.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && condition(pod)
	})
	return pod
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func checkGPUPod(t *testing.T, api *kubernetes.Clientset) {
	createPod(t, api, testPod("fits", "8"))
	pod := awaitPod(t, api, "fits", podReady)
	if pod.Status.PodIP == "" || pod.Status.ContainerStatuses[0].State.Running == nil || pod.Status.InitContainerStatuses[0].State.Terminated == nil {
		t.Errorf("a ready pod looks unlike one: %+v", pod.Status)
	}
	createPod(t, api, testPod("too-big", "9"))
	awaitPod(t, api, "too-big", func(pod *corev1.Pod) bool {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled {
				return condition.Reason == corev1.PodReasonUnschedulable
			}
		}
		return false
	})
	if err := api.CoreV1().Pods("default").Delete(t.Context(), "fits", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "end of a deleted pod", func() bool {
		_, err := api.CoreV1().Pods("default").Get(t.Context(), "fits", metav1.GetOptions{})
		return err != nil
	})
}

func checkHeldPod(t *testing.T, api *kubernetes.Clientset) {
	held := testPod("held", "")
	held.Annotations = map[string]string{"dynamo-local/hold": "true"}
	createPod(t, api, held)
	awaitPod(t, api, "held", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	// A pod that is made later and becomes ready shows that kwok has had its chance.
	createPod(t, api, testPod("later", ""))
	awaitPod(t, api, "later", podReady)
	pod := awaitPod(t, api, "held", func(*corev1.Pod) bool { return true })
	if pod.Status.Phase != corev1.PodPending {
		t.Errorf("held pod is %s, want Pending", pod.Status.Phase)
	}
}

func checkJob(t *testing.T, api *kubernetes.Clientset) {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: testPod("", "").Spec}},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := api.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "completion of the job", func() bool {
		job, err := api.BatchV1().Jobs("default").Get(t.Context(), "once", metav1.GetOptions{})
		return err == nil && job.Status.Succeeded == 1
	})
}

func checkLeaderWorkerSet(t *testing.T, cluster *Cluster) {
	config, err := cluster.RESTConfig(UserAdmin)
	if err != nil {
		t.Fatal(err)
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	sets := api.Resource(schema.GroupVersionResource{
		Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets",
	}).Namespace("default")
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": map[string]any{"name": "pair"},
		"spec": map[string]any{"replicas": int64(1), "leaderWorkerTemplate": map[string]any{
			"size": int64(2),
			"workerTemplate": map[string]any{"spec": map[string]any{
				"containers": []any{map[string]any{"name": "main", "image": "example.test/none"}},
			}},
		}},
	}}
	created, err := sets.Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if policy, _, _ := unstructured.NestedString(created.Object, "spec", "startupPolicy"); policy == "" {
		t.Error("the defaulting webhook was not asked")
	}
	eventually(t, "readiness of the LeaderWorkerSet", func() bool {
		set, err := sets.Get(t.Context(), "pair", metav1.GetOptions{})
		if err != nil {
			return false
		}
		ready, _, _ := unstructured.NestedInt64(set.Object, "status", "readyReplicas")
		return ready == 1
	})
}

func checkRestartedKwok(t *testing.T, cluster *Cluster, api *kubernetes.Clientset) {
	if err := cluster.Kill(Kwok); err != nil {
		t.Fatal(err)
	}
	createPod(t, api, testPod("patient", ""))
	if err := cluster.Restart(t.Context(), Kwok); err != nil {
		t.Fatal(err)
	}
	awaitPod(t, api, "patient", podReady)
}
