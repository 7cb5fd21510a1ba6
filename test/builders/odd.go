// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Odd makes a graph whose services have members that users get wrong, some of which are fine all the same.
func (g Generator) Odd(namespace, name string) *v1alpha1.DynamoGraphDeployment {
	graph := Graph(namespace, name).Obj()
	if g.one(3) {
		graph.Spec.PVCs = []v1alpha1.PVC{{
			Name: new(g.mostly("models", "models.v1", "Models")), Create: new(true), StorageClass: g.mostly("fast", "fa st"),
			Size: resource.MustParse(g.mostly("1Gi", "0", "-1Gi")), VolumeAccessMode: corev1.PersistentVolumeAccessMode(g.mostly("ReadWriteMany", "Foo", "")),
		}}
	}
	for _, service := range []string{"a", "b"} {
		s := g.Service(g.pick(v1alpha1.ComponentTypeWorker, v1alpha1.ComponentTypeFrontend, "custom"))
		s.Replicas = nil
		odd := []func(*v1alpha1.DynamoComponentDeploymentSharedSpec){
			g.oddAmounts, g.oddMetadata, g.oddVolumes, g.oddContainers, g.oddNetwork, g.oddProbes, g.oddConfig,
		}
		odd[g.IntN(len(odd))](s)
		graph.Spec.Services[service] = s
	}
	return graph
}

// mostly is the first of all, and now and then another.
func (g Generator) mostly(first string, others ...string) string {
	if g.one(6) {
		return g.pick(others...)
	}
	return first
}

func (g Generator) oddAmounts(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	amount := func() string { return g.mostly("", "0", "1", "2", "-1", "0.5", "1500m", "1Gi") }
	item := func() *v1alpha1.ResourceItem {
		i := &v1alpha1.ResourceItem{CPU: amount(), Memory: amount(), GPU: amount(), GPUType: g.mostly("", "example.com/gpu", "gpu", "bad name")}
		if g.one(2) {
			name := g.mostly("example.com/device", "foo", "hugepages-2Mi", "ephemeral-storage", "kubernetes.io/x")
			i.Custom = map[string]string{name: g.mostly("1", "2", "1Gi", "0.5")}
		}
		return i
	}
	s.Resources = &v1alpha1.Resources{Limits: item(), Requests: item()}
	s.SharedMemory = &v1alpha1.SharedMemorySpec{Size: resource.MustParse(g.mostly("1Gi", "-1Gi", "1"))}
	if g.one(3) {
		s.ExtraPodSpec.MainContainer.Resources.Requests = corev1.ResourceList{"example.com/device": resource.MustParse(g.mostly("1", "2"))}
	}
}

func (g Generator) oddMetadata(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	key := func() string {
		return g.mostly("a", "a b", "example.com/a", "/a", "Example.com/a", strings.Repeat("k", 64))
	}
	s.Labels = map[string]string{key(): g.mostly("x", "x y", "", strings.Repeat("v", 64))}
	s.Annotations = map[string]string{
		key(): "x y", names.AnnotationMaxSurge: g.mostly("1", "0", "abc", "-5", "50%", "0%", "200%", "5 %"),
		names.AnnotationMaxUnavailable: g.mostly("1", "0", "0%", "150%", "1.5"), names.AnnotationDebugMode: g.mostly("true", "false"),
	}
	s.ExtraPodMetadata = &v1alpha1.ExtraPodMetadata{
		Labels:      map[string]string{g.mostly("a", names.LabelSelector, names.LabelComponent): g.mostly("zz", "z z")},
		Annotations: map[string]string{key(): ""},
	}
}

func (g Generator) oddVolumes(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	claim := func() string {
		return g.mostly("models", "models.v1", "Models", names.SharedMemoryVolume, "shm", strings.Repeat("m", 64))
	}
	path := func() string { return g.pick("/models", "/dev/shm", "models", "a:b", "/other", "/more", "/most") }
	s.VolumeMounts = []v1alpha1.VolumeMount{{Name: claim(), MountPoint: path()}, {Name: claim(), MountPoint: path()}}
	if g.one(2) {
		s.ExtraPodSpec.PodSpec = &corev1.PodSpec{Volumes: []corev1.Volume{
			{Name: claim(), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}}
		s.ExtraPodSpec.MainContainer.VolumeMounts = []corev1.VolumeMount{{Name: claim(), MountPath: path()}}
	}
}

func (g Generator) oddContainers(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ExtraPodSpec.MainContainer.Image = g.mostly(Image, " ", Image+" ", "")
	s.Envs = []corev1.EnvVar{{Name: g.mostly("A", "A=B", "a b", "1A", "Ä"), Value: g.mostly("", "x")}}
	if g.one(2) {
		s.Envs[0].ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	}
	s.ExtraPodSpec.PodSpec = &corev1.PodSpec{Containers: []corev1.Container{{Name: g.mostly("side", "main", "debugger", "Side car"), Image: g.mostly(Image, "")}}}
	s.Annotations = map[string]string{names.AnnotationDebugMode: g.mostly("true", "false")}
}

func (g Generator) oddNetwork(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Ingress = &v1alpha1.IngressSpec{
		Enabled: true, Host: g.mostly("h", "A_b", "*", "h.", strings.Repeat("h", 64)),
		HostPrefix: new(g.mostly("", "p-", "-", ".")), HostSuffix: new(g.mostly("", "ex.com", ".ex.com")),
		IngressControllerClassName: new(g.mostly("nginx", "", "Ng inx")), Labels: map[string]string{g.mostly("a", "a b"): g.mostly("x", "x y")},
		TLS: &v1alpha1.IngressTLSSpec{SecretName: g.mostly("tls", "T ls", "")},
	}
}

func (g Generator) oddProbes(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	probe := func() *corev1.Probe {
		p := &corev1.Probe{PeriodSeconds: 3}
		if !g.one(4) {
			p.Exec = &corev1.ExecAction{Command: []string{"true"}}
		}
		return p
	}
	s.LivenessProbe, s.ExtraPodSpec.MainContainer.ReadinessProbe, s.ExtraPodSpec.MainContainer.StartupProbe = probe(), probe(), probe()
}

func (g Generator) oddConfig(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	entry := g.mostly(`"Workers": 3`, `"Workers": -3`, `"Workers": "3"`,
		`"Resources": {"CPU": "-1"}`, `"Resources": {"GPU": "two"}`, `"Resources": {"Custom": {"foo": "1"}}`)
	text := g.mostly(`{"a": {"ServiceArgs": {%}}, "b": {"ServiceArgs": {%}}}`, `[%]`, `{"a": "%"}`, `{}`)
	s.Envs = []corev1.EnvVar{{Name: v1alpha1.DeploymentConfigEnv, Value: strings.ReplaceAll(text, "%", entry)}}
}
