// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod renders the pod template of a component: the defaults of its role, under what the user wrote, with the
// operator's additions around them.
package pod

import (
	"maps"
	"slices"
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

// defaultAccount is the account every namespace has.
const defaultAccount = "default"

// Options are what differs between the workloads of one component.
type Options struct {
	// Workload is the name by which the workload selects its pods.
	Workload string
	// Debug marks the pods of a component's second, debugged workload.
	Debug bool
	// Group is the place of the pods among the nodes of a replica, nil where each pod is a replica by itself.
	Group *engine.Group
}

// inWorker tells whether the pods only lend their node to a leader: nobody talks to them.
func (o Options) inWorker() bool { return o.Group != nil && o.Group.Role == engine.Worker }

// Template renders the pod template of a component.
func Template(c input.Component, o Options) (corev1.PodTemplateSpec, field.ErrorList) {
	spec, errs := podSpec(c, o)
	if o.Debug || c.Switched(names.AnnotationDebugMode) && !c.OnGrove { // the reference has none there
		addDebugger(&spec, c)
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: podLabels(c, o), Annotations: podAnnotations(c)},
		Spec:       spec,
	}
	return template, append(errs, unsound(template, c)...)
}

func podSpec(c input.Component, o Options) (corev1.PodSpec, field.ErrorList) {
	framework, errs := engine.Framework(c)
	role := roleDefaults(c)
	main, more := mainContainer(c, framework, role.container)
	errs = append(errs, more...)
	claims, more := claimMounts(c, framework)
	errs = append(errs, more...)
	main.VolumeMounts = append(main.VolumeMounts, claims.container...)
	var wiring []corev1.Volume
	if o.Group != nil {
		wiring, more = engine.Wire(&main, c, framework, *o.Group)
		errs = append(errs, more...)
	}

	spec := role.pod
	user := userPodSpec(c)
	overlay.Onto(&spec, user)
	if user == nil || user.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](names.DefaultFSGroup)}
	}
	setAccount(&spec, c)
	spec.Containers = append(slices.Clone(spec.Containers), main)
	spec.Volumes = slices.Concat(withVolumes(role.pod.Volumes, spec.Volumes), claims.pod, wiring)
	addPullSecrets(&spec, c.World.PullSecrets)
	return spec, errs
}

// setAccount gives pods an account that none was chosen for: the graph's own for discovery through the API, else the one
// marked for component pods, else the namespace's.
func setAccount(spec *corev1.PodSpec, c input.Component) {
	switch {
	case spec.ServiceAccountName != "":
	case c.Discovery() == names.DiscoveryKubernetes:
		spec.ServiceAccountName = names.DiscoveryAccount(c.Parent())
	case c.OnGrove: // Grove leaves it to the namespace
	case c.World.Account != "":
		spec.ServiceAccountName = c.World.Account
	default:
		spec.ServiceAccountName = defaultAccount
	}
}

// addPullSecrets adds discovered secrets behind those the user named, each once.
func addPullSecrets(spec *corev1.PodSpec, discovered []string) {
	for _, name := range discovered {
		ref := corev1.LocalObjectReference{Name: name}
		if !slices.Contains(spec.ImagePullSecrets, ref) {
			spec.ImagePullSecrets = append(slices.Clone(spec.ImagePullSecrets), ref)
		}
	}
}

// userPodSpec is a copy of what the user wrote about the pod, nil for nothing.
func userPodSpec(c input.Component) *corev1.PodSpec {
	if c.Spec.ExtraPodSpec == nil {
		return nil
	}
	return c.Spec.ExtraPodSpec.PodSpec.DeepCopy()
}

// podLabels are applied in this order, later ones win: the component's, ours, those of extraPodMetadata.
func podLabels(c input.Component, o Options) map[string]string {
	labels := c.ObjectLabels()
	if o.Debug {
		labels[names.LabelTargetType] = names.Debug
	}
	if c.Spec.Annotations[names.AnnotationEnableMetrics] != names.False {
		labels[names.LabelMetricsEnabled] = names.True
	}
	if o.inWorker() {
		// Whoever scrapes or calls pods by these labels would take a worker, which has no probes, for one that serves.
		delete(labels, names.LabelMetricsEnabled)
		delete(labels, names.LabelBaseModelHash)
	}
	if c.Spec.ComponentType != "" {
		labels[names.LabelComponentType] = c.Spec.ComponentType
	}
	if c.Spec.SubComponentType != "" {
		labels[names.LabelSubComponentType] = c.Spec.SubComponentType
	}
	labels[names.LabelSelector] = o.Workload
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
