// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// addDebugger puts a container beside the others from which a person can look into their processes.
func addDebugger(spec *corev1.PodSpec, c input.Component) {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	spec.ShareProcessNamespace = new(true)
	spec.Containers = append(spec.Containers, corev1.Container{
		Name:    "debugger",
		Image:   c.Settings.DebuggerImage,
		Command: []string{"sleep", "infinity"},
		SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}},
		},
		Resources: corev1.ResourceRequirements{Requests: amounts("100m", "100Mi"), Limits: amounts("1000m", "1000Mi")},
		Stdin:     true,
		TTY:       true,
	})
}
