// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func TestTry(t *testing.T) {
	begin := time.Now()
	c, err := Start(t.Context(), Options{StateDir: t.TempDir(), Progress: os.Stderr, ControllerManager: true, Scheduler: true, Nodes: 2, GPUs: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up in %s", time.Since(begin))
	cs, _ := c.clientset()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}}}, InitContainers: []corev1.Container{{Name: "ini", Image: "i"}}}}
	var e error
	for i := 0; i < 100; i++ {
		if _, e = cs.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); e == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Log(e, time.Since(begin))
	for i := 0; i < 100; i++ {
		time.Sleep(50 * time.Millisecond)
		p, _ := cs.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if i == 99 || p.Status.Phase == "Running" {
			b, _ := yaml.Marshal(p.Status)
			t.Log(string(b), time.Since(begin))
			break
		}
	}
	n, _ := cs.CoreV1().Nodes().Get(t.Context(), "sim-0", metav1.GetOptions{})
	b, _ := yaml.Marshal(n)
	t.Log(string(b))
	t.Log(cs.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{}))
	for i := 0; i < 100; i++ {
		time.Sleep(50 * time.Millisecond)
		_, e := cs.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
		if e != nil {
			t.Log(i, e)
			break
		}
	}
	t.Log(logTail(c.LogPath("kwok"), 0, 20))
	begin = time.Now()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("down in %s", time.Since(begin))
}
