// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package builders

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Generator makes valid graphs at random. Equal seeds make equal graphs, so a failure names its seed and comes back.
type Generator struct{ *rand.Rand }

// NewGenerator returns a generator for a seed.
func NewGenerator(seed uint64) Generator { return Generator{rand.New(rand.NewPCG(seed, 0))} }

// Graph makes a graph of one to five services.
func (g Generator) Graph(namespace, name string) *v1alpha1.DynamoGraphDeployment {
	graph := &v1alpha1.DynamoGraphDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.DynamoGraphDeploymentSpec{Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{}},
	}
	if g.one(4) {
		graph.Annotations = map[string]string{names.AnnotationDiscoveryBackend: g.pick(names.DiscoveryEtcd, names.DiscoveryKubernetes)}
	}
	if g.one(3) {
		graph.Spec.Envs = g.envs()
	}
	types := []string{
		v1alpha1.ComponentTypeFrontend, v1alpha1.ComponentTypeWorker, v1alpha1.ComponentTypePrefill, v1alpha1.ComponentTypeDecode,
		v1alpha1.ComponentTypePlanner, "", "custom",
	}
	for i := range 1 + g.IntN(5) {
		service := g.Service(types[g.IntN(len(types))])
		graph.Spec.Services[fmt.Sprintf("%s%d", g.pick("Frontend", "worker", "VllmDecode", "x"), i)] = service
	}
	if g.one(5) {
		graph.Spec.Services["Epp"] = g.endpointPicker()
	}
	return graph
}

// Change makes another graph with the same services, which keep their names and types.
func (g Generator) Change(graph *v1alpha1.DynamoGraphDeployment) *v1alpha1.DynamoGraphDeployment {
	changed := g.Graph(graph.Namespace, graph.Name)
	changed.Spec.Services = map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{}
	for _, name := range slices.Sorted(maps.Keys(graph.Spec.Services)) {
		if name == "Epp" {
			changed.Spec.Services[name] = g.endpointPicker()
			continue
		}
		changed.Spec.Services[name] = g.Service(graph.Spec.Services[name].ComponentType)
	}
	return changed
}

func (g Generator) one(in int) bool            { return g.IntN(in) == 0 }
func (g Generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// Service makes a service of a type.
func (g Generator) Service(componentType string) *v1alpha1.DynamoComponentDeploymentSharedSpec {
	s := &v1alpha1.DynamoComponentDeploymentSharedSpec{
		ComponentType: componentType,
		ExtraPodSpec: &v1alpha1.ExtraPodSpec{MainContainer: &corev1.Container{
			Image: Image, Args: []string{g.pick("python3 -m dynamo.vllm", "python3 -m dynamo.sglang --tp 1", "sleep 1")},
		}},
	}
	for _, maybe := range []func(*v1alpha1.DynamoComponentDeploymentSharedSpec){
		g.replicas, g.metadata, g.resources, g.environment, g.storage, g.network, g.pod, g.probes,
	} {
		if g.one(2) {
			maybe(s)
		}
	}
	return s
}

func (g Generator) replicas(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Replicas = new(g.Int32N(4))
}

func (g Generator) metadata(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Labels = map[string]string{"team": g.pick("a", "b"), names.LabelGraph: "ignored"}
	s.Annotations = map[string]string{
		"example.com/note": g.pick("x", ""), names.AnnotationEnableMetrics: g.pick("true", "false"),
		names.AnnotationStrategy: g.pick("Recreate", "RollingUpdate", "other"), names.AnnotationMaxSurge: g.pick("1", "50%"),
		names.AnnotationDebugMode: g.pick("true", "false"), names.AnnotationStealingTrafficDebug: g.pick("true", "false"),
	}
	s.ExtraPodMetadata = &v1alpha1.ExtraPodMetadata{
		Labels: map[string]string{"pod": "yes"}, Annotations: map[string]string{"example.com/pod": "yes"},
	}
	s.SubComponentType = g.pick("", "prefill")
	s.GlobalDynamoNamespace = g.one(4)
}

func (g Generator) resources(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Resources = &v1alpha1.Resources{
		Requests: &v1alpha1.ResourceItem{CPU: g.pick("", "1", "500m"), Memory: g.pick("", "1Gi")},
		Limits:   &v1alpha1.ResourceItem{CPU: "2", Memory: "4Gi", GPU: g.pick("", "1"), GPUType: g.pick("", "example.com/gpu")},
	}
}

func (g Generator) environment(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Envs = g.envs()
	s.ExtraPodSpec.MainContainer.Env = g.envs()
	s.EnvFromSecret = new("credentials")
}

func (g Generator) envs() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "A_PATH", Value: "$(Z_ROOT)/a"}, {Name: "Z_ROOT", Value: g.pick("/x", "/y")},
		{Name: "NATS_SERVER", Value: g.pick("nats://a", "nats://b")},
		{Name: "FROM", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
}

func (g Generator) storage(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.VolumeMounts = []v1alpha1.VolumeMount{{Name: "weights", MountPoint: "/weights", UseAsCompilationCache: g.one(2)}}
	s.SharedMemory = &v1alpha1.SharedMemorySpec{Disabled: g.one(2), Size: resource.MustParse(g.pick("1Gi", "512Mi"))}
}

func (g Generator) network(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.Ingress = &v1alpha1.IngressSpec{
		Enabled: g.one(2), Host: "chat", HostPrefix: new("p-"), IngressControllerClassName: new("nginx"),
		Labels: map[string]string{"in": "gress"}, TLS: &v1alpha1.IngressTLSSpec{SecretName: "tls"},
	}
	s.ModelRef = &v1alpha1.ModelReference{Name: g.pick("acme/tiny-1b", "acme/big-70b")}
}

func (g Generator) pod(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	s.ExtraPodSpec.PodSpec = &corev1.PodSpec{
		NodeSelector: map[string]string{"gpu": "yes"}, Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "sidecar", Image: Image, Ports: []corev1.ContainerPort{{ContainerPort: 53, Protocol: corev1.ProtocolUDP}},
		}},
		Volumes:                       []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		TerminationGracePeriodSeconds: new(g.Int64N(3)),
		ImagePullSecrets:              []corev1.LocalObjectReference{{Name: "mine"}},
	}
}

func (g Generator) probes(s *v1alpha1.DynamoComponentDeploymentSharedSpec) {
	tcp := corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}
	s.LivenessProbe = &corev1.Probe{ProbeHandler: tcp, PeriodSeconds: 7}
	s.ExtraPodSpec.MainContainer.ReadinessProbe = &corev1.Probe{ProbeHandler: tcp}
	s.ExtraPodSpec.MainContainer.StartupProbe = &corev1.Probe{ProbeHandler: tcp}
}

func (g Generator) endpointPicker() *v1alpha1.DynamoComponentDeploymentSharedSpec {
	s := g.Service(v1alpha1.ComponentTypeEPP)
	s.Replicas = nil
	s.EPPConfig = &v1alpha1.EPPConfig{ConfigMapRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "k"}}
	if g.one(2) {
		s.EPPConfig = &v1alpha1.EPPConfig{Config: &apiextensionsv1.JSON{Raw: []byte(`{"plugins":[{"type":"kv","parameters":{"a":[1,2]}}],"schedulingProfiles":[]}`)}}
	}
	return s
}
