// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// mounts are volumes of the pod and where the main container has them.
type mounts struct {
	pod       []corev1.Volume
	container []corev1.VolumeMount
}

// claimMounts renders the component's claims and its shared memory.
func claimMounts(c input.Component, framework string) (mounts, field.ErrorList) {
	var m mounts
	var errs field.ErrorList
	for i, v := range c.Spec.VolumeMounts {
		path := c.Path.Child("volumeMounts").Index(i)
		if v.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "name the claim to mount"))
			continue
		}
		at := v.MountPoint
		if at == "" && v.UseAsCompilationCache {
			at = engine.CachePath(framework)
		}
		if at == "" {
			errs = append(errs, field.Required(path.Child("mountPoint"), "say where to mount claim "+v.Name))
			continue
		}
		if !hasVolume(m.pod, v.Name) { // one claim may be mounted in several places
			m.pod = append(m.pod, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name},
			}})
		}
		m.container = append(m.container, corev1.VolumeMount{Name: v.Name, MountPath: at})
	}
	m.addSharedMemory(c)
	return m, errs
}

// withVolumes returns the volumes a role needs, unless the user has his own of that name, and the user's. A list of the
// user's would otherwise leave the role without its files.
func withVolumes(role, user []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for _, v := range role {
		if !hasVolume(user, v.Name) {
			out = append(out, v)
		}
	}
	return append(out, user...)
}

// withMounts does for mounts what withVolumes does for volumes. What is mounted where decides.
func withMounts(role, user []corev1.VolumeMount) []corev1.VolumeMount {
	var out []corev1.VolumeMount
	for _, m := range role {
		if !slices.ContainsFunc(user, func(u corev1.VolumeMount) bool { return u.MountPath == m.MountPath }) {
			out = append(out, m)
		}
	}
	return append(out, user...)
}

func hasVolume(volumes []corev1.Volume, name string) bool {
	return slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
}

// addSharedMemory adds the tmpfs through which engine processes exchange tensors, unless the user does without.
func (m *mounts) addSharedMemory(c input.Component) {
	size := resource.MustParse(names.DefaultSharedMemory)
	if s := c.Spec.SharedMemory; s != nil {
		if s.Disabled {
			return
		}
		if !s.Size.IsZero() {
			size = s.Size
		}
	}
	if user := userPodSpec(c); user != nil && hasVolume(user.Volumes, names.SharedMemoryVolume) {
		return // the user brings his own, and mounts it himself
	}
	m.pod = append(m.pod, corev1.Volume{Name: names.SharedMemoryVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
	}})
	m.container = append(m.container, corev1.VolumeMount{Name: names.SharedMemoryVolume, MountPath: names.SharedMemoryPath})
}
