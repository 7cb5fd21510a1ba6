// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
)

// typical is a Deployment of about the size that a worker gets.
func typical() *appsv1.Deployment {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(9090)}},
			PeriodSeconds: 5, TimeoutSeconds: 4, FailureThreshold: 30,
		}
	}
	main := corev1.Container{
		Name: "main", Image: "registry.example.com/dynamo:1", Command: []string{"/bin/sh", "-c"}, Args: []string{"python3 -m dynamo.vllm"},
		Ports: []corev1.ContainerPort{{Name: "system", ContainerPort: 9090, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1"),
		}},
		VolumeMounts: []corev1.VolumeMount{{Name: "shared-memory", MountPath: "/dev/shm"}},
		StartupProbe: probe("/live"), LivenessProbe: probe("/live"), ReadinessProbe: probe("/health"),
	}
	for _, name := range []string{
		"A", "B", "DYN_COMPONENT", "DYN_NAMESPACE", "DYN_PARENT_DGD_K8S_NAME", "DYN_DISCOVERY_BACKEND", "DYN_SYSTEM_ENABLED", "DYN_SYSTEM_PORT",
		"DYN_HEALTH_CHECK_ENABLED", "NIXL_TELEMETRY_ENABLE", "NATS_SERVER", "ETCD_ENDPOINTS",
	} {
		main.Env = append(main.Env, corev1.EnvVar{Name: name, Value: "value of " + name})
	}
	labels := map[string]string{"app": "chat", "component": "decode", "type": "worker", "graph": "chat"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "chat-decode", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{main}, ServiceAccountName: "chat-k8s-service-discovery", TerminationGracePeriodSeconds: new(int64(60)),
				Volumes: []corev1.Volume{{Name: "shared-memory", VolumeSource: corev1.VolumeSource{
					EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("8Gi"))},
				}}},
			}},
		},
	}
}

func prepared(b *testing.B) (*runtime.Scheme, Intent) {
	b.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			b.Fatal(err)
		}
	}
	intent, err := Prepare(scheme, testOwner(), typical(), belonging.Owned)
	if err != nil {
		b.Fatal(err)
	}
	return scheme, intent
}

// BenchmarkPrepare is the way from a rendered Deployment to an intent and its hash.
func BenchmarkPrepare(b *testing.B) {
	scheme, _ := prepared(b)
	owner, desired := testOwner(), typical()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Prepare(scheme, owner, desired, belonging.Owned); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHash is the part of that which tells whether something changed.
func BenchmarkHash(b *testing.B) {
	_, intent := prepared(b)
	b.ReportAllocs()
	for b.Loop() {
		if hashOf(intent.encoded) == "" {
			b.Fatal("no hash")
		}
	}
}

// answered is the intent as the API server has it.
func answered(b *testing.B, intent Intent) *appsv1.Deployment {
	b.Helper()
	live := &appsv1.Deployment{}
	if err := json.Unmarshal(intent.encoded, live); err != nil {
		b.Fatal(err)
	}
	live.UID, live.ResourceVersion, live.Generation = "child", "100", 1
	live.Spec.ProgressDeadlineSeconds, live.Spec.RevisionHistoryLimit = new(int32(600)), new(int32(10))
	return live
}

// BenchmarkContained compares all fields of a Deployment, as happens once for each child after a start.
func BenchmarkContained(b *testing.B) {
	_, intent := prepared(b)
	live := answered(b, intent)
	b.ReportAllocs()
	for b.Loop() {
		if same, err := verify(intent, live); err != nil || !same {
			b.Fatalf("the Deployment is not as wanted: %v", err)
		}
	}
}

// BenchmarkJudge decides about an unchanged Deployment whose status moved, as happens in every later pass.
func BenchmarkJudge(b *testing.B) {
	_, intent := prepared(b)
	owner, live := testOwner(), answered(b, intent)
	seen := state{uid: live.UID, hash: intent.Hash, version: "99", generation: live.Generation}
	b.ReportAllocs()
	for b.Loop() {
		if got := judge(intent, owner, live, seen); got != nothing {
			b.Fatalf("verdict %d", got)
		}
	}
}
