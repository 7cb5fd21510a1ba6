// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

const (
	eppConfigVolume = "epp-config"
	eppConfigPath   = "/etc/epp"
	eppCacheVolume  = "hf-cache"
	eppCachePath    = "/home/nonroot/.cache"
	eppHealth       = "inference-extension"

	// eppGracePeriod lets streams that the picker routes come to their end.
	eppGracePeriod = 130
)

// endpointPicker fills the role of the component that a gateway asks for a worker.
func endpointPicker(r *role, c input.Component) {
	m := &r.container
	m.Command = nil
	m.Args = []string{
		"-pool-name", names.Pool(c.Parent()), "-pool-namespace", c.Namespace, "-pool-group", names.InferenceGroup,
		"-v", "4", "--zap-encoder", "json",
		"-grpc-port", strconv.Itoa(names.PortGRPCNumber), "-grpc-health-port", strconv.Itoa(names.PortGRPCHealthNumber),
		"-config-file", eppConfigPath + "/" + names.EPPConfigFile,
	}
	m.Ports = []corev1.ContainerPort{
		port(names.PortGRPC, names.PortGRPCNumber),
		port(names.PortGRPCHealth, names.PortGRPCHealthNumber),
		port(names.PortMetrics, names.PortSystemNumber),
	}
	m.Env = append(m.Env,
		corev1.EnvVar{Name: "DYN_KV_BLOCK_SIZE", Value: "16"},
		corev1.EnvVar{Name: "USE_STREAMING", Value: names.True},
		corev1.EnvVar{Name: "RUST_LOG", Value: "debug,dynamo_llm::kv_router=trace"},
	)
	health := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: names.PortGRPCHealthNumber, Service: new(eppHealth)}}
	m.LivenessProbe = &corev1.Probe{ProbeHandler: health, InitialDelaySeconds: 5, PeriodSeconds: 10}
	m.ReadinessProbe = m.LivenessProbe.DeepCopy()
	m.StartupProbe = &corev1.Probe{ProbeHandler: health, PeriodSeconds: 10, FailureThreshold: 180}
	m.VolumeMounts = []corev1.VolumeMount{
		{Name: eppConfigVolume, MountPath: eppConfigPath, ReadOnly: true},
		{Name: eppCacheVolume, MountPath: eppCachePath},
	}
	r.pod.ServiceAccountName = names.EPPAccount
	r.pod.TerminationGracePeriodSeconds = ptr.To[int64](eppGracePeriod)
	r.pod.Volumes = []corev1.Volume{
		{Name: eppConfigVolume, VolumeSource: corev1.VolumeSource{ConfigMap: eppConfig(c)}},
		{Name: eppCacheVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
}

// eppConfig mounts the picker's configuration under one file name, whatever its key is called.
func eppConfig(c input.Component) *corev1.ConfigMapVolumeSource {
	name, key := names.EPPConfig(c.Parent()), names.EPPConfigFile
	if e := c.Spec.EPPConfig; e != nil && e.ConfigMapRef != nil {
		name = e.ConfigMapRef.Name
		if e.ConfigMapRef.Key != "" {
			key = e.ConfigMapRef.Key
		}
	}
	return &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name},
		Items:                []corev1.KeyToPath{{Key: key, Path: names.EPPConfigFile}},
	}
}
