// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod renders the pod template of a component: the defaults of its role, under what the user wrote, with the
// operator's additions around them.
package pod

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/internal/render/engine"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/overlay"
)

const defaultGracePeriod = 60

// Template renders the pod template of a component that runs on one node.
func Template(c input.Component) (corev1.PodTemplateSpec, field.ErrorList) {
	spec, errs := podSpec(c)
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels(c), Annotations: podAnnotations(c)},
		Spec:       spec,
	}, errs
}

func podSpec(c input.Component) (corev1.PodSpec, field.ErrorList) {
	framework, errs := engine.Framework(c)
	main, more := mainContainer(c, framework)
	errs = append(errs, more...)
	mounts, more := claimMounts(c, framework)
	errs = append(errs, more...)
	main.VolumeMounts = append(main.VolumeMounts, mounts.container...)

	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](defaultGracePeriod),
	}
	user := userPodSpec(c)
	overlay.Onto(&spec, user)
	if user == nil || user.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](names.DefaultFSGroup)}
	}
	if spec.ServiceAccountName == "" && c.Discovery() == names.DiscoveryKubernetes {
		spec.ServiceAccountName = names.DiscoveryAccount(c.Parent())
	}
	spec.Containers = append(append([]corev1.Container{}, spec.Containers...), main)
	spec.Volumes = append(append([]corev1.Volume{}, spec.Volumes...), mounts.pod...)
	return spec, errs
}

// userPodSpec is a copy of what the user wrote about the pod, nil for nothing.
func userPodSpec(c input.Component) *corev1.PodSpec {
	if c.Spec.ExtraPodSpec == nil {
		return nil
	}
	return c.Spec.ExtraPodSpec.PodSpec.DeepCopy()
}

// podLabels are applied in this order, later ones win: the component's, ours, those of extraPodMetadata.
func podLabels(c input.Component) map[string]string {
	labels := c.ObjectLabels()
	if c.Spec.Annotations[names.AnnotationEnableMetrics] != names.False {
		labels[names.LabelMetricsEnabled] = names.True
	}
	if c.Spec.ComponentType != "" {
		labels[names.LabelComponentType] = c.Spec.ComponentType
	}
	if c.Spec.SubComponentType != "" {
		labels[names.LabelSubComponentType] = c.Spec.SubComponentType
	}
	labels[names.LabelSelector] = c.Name
	if c.Spec.ExtraPodMetadata != nil {
		maps.Copy(labels, c.Spec.ExtraPodMetadata.Labels)
	}
	return labels
}

// podAnnotations are the user's, without the switches that only the operator reads, and the restart token.
func podAnnotations(c input.Component) map[string]string {
	annotations := map[string]string{}
	for key, value := range c.Spec.Annotations {
		if !strings.HasPrefix(key, names.SwitchPrefix) {
			annotations[key] = value
		}
	}
	if c.Spec.ExtraPodMetadata != nil {
		maps.Copy(annotations, c.Spec.ExtraPodMetadata.Annotations)
	}
	if token, ok := c.Spec.Annotations[names.AnnotationRestartAt]; ok {
		annotations[names.AnnotationRestartAt] = token
	}
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}
