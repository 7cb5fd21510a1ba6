// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
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
			errs = append(errs, field.Required(path.Child("mountPoint"), missingPath(v, framework)))
			continue
		}
		volume := claimVolume(v.Name)
		if !hasVolume(m.pod, volume) { // one claim may be mounted in several places
			m.pod = append(m.pod, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.Name},
			}})
		}
		m.container = append(m.container, corev1.VolumeMount{Name: volume, MountPath: at})
	}
	m.addSharedMemory(c)
	return m, errs
}

// claimVolume is the volume of a claim. Names of claims may have dots, and those of volumes may not.
func claimVolume(claim string) string { return strings.ReplaceAll(claim, ".", "-") }

func missingPath(v v1alpha1.VolumeMount, framework string) string {
	if v.UseAsCompilationCache {
		return fmt.Sprintf("only the cache of vLLM has a place by default, and this runs %q: say where to mount claim %s", framework, v.Name)
	}
	return "say where to mount claim " + v.Name
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
	if user := userPodSpec(c); user != nil && hasVolume(user.Volumes, names.SharedMemoryVolume) || hasSharedMemory(c, m.container) {
		return // the user brings his own, and mounts it himself
	}
	m.pod = append(m.pod, corev1.Volume{Name: names.SharedMemoryVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &size},
	}})
	m.container = append(m.container, corev1.VolumeMount{Name: names.SharedMemoryVolume, MountPath: names.SharedMemoryPath})
}

// hasSharedMemory tells whether a user has mounted something where shared memory is. Of two mounts there, the API server takes none.
func hasSharedMemory(c input.Component, claims []corev1.VolumeMount) bool {
	mounts := claims
	if own := userContainer(c); own != nil {
		mounts = slices.Concat(mounts, own.VolumeMounts)
	}
	return slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.MountPath == names.SharedMemoryPath })
}
