// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package overlay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestOntoFollowsTheMergeRules(t *testing.T) {
	t.Parallel()
	probe := func(path string, period int32) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("system")}},
			PeriodSeconds: period,
		}
	}
	for name, tc := range map[string]struct{ base, user, want corev1.Container }{
		"set scalar replaces":          {corev1.Container{Image: "a"}, corev1.Container{Image: "b"}, corev1.Container{Image: "b"}},
		"unset scalar does not":        {corev1.Container{Image: "a"}, corev1.Container{}, corev1.Container{Image: "a"}},
		"false does not":               {corev1.Container{TTY: true}, corev1.Container{TTY: false}, corev1.Container{TTY: true}},
		"list replaces whole":          {corev1.Container{Args: []string{"a", "b"}}, corev1.Container{Args: []string{"c"}}, corev1.Container{Args: []string{"c"}}},
		"empty list does not":          {corev1.Container{Args: []string{"a"}}, corev1.Container{Args: []string{}}, corev1.Container{Args: []string{"a"}}},
		"structs merge through points": {corev1.Container{LivenessProbe: probe("/live", 5)}, corev1.Container{LivenessProbe: &corev1.Probe{PeriodSeconds: 9}}, corev1.Container{LivenessProbe: probe("/live", 9)}},
		"nil base takes user's pointer": {corev1.Container{}, corev1.Container{StartupProbe: probe("/x", 1)},
			corev1.Container{StartupProbe: probe("/x", 1)}},
		"maps merge, user wins": {
			corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}}},
			corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}},
			corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}}},
		},
		"a port is one value": {
			corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}}},
			corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}},
			corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := *tc.base.DeepCopy()
			Onto(&got, &tc.user)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAZeroBehindAPointerIsAValue(t *testing.T) {
	t.Parallel()
	base := corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](60)}
	Onto(&base, &corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](0)})
	if *base.TerminationGracePeriodSeconds != 0 {
		t.Errorf("grace period %d, want the user's 0", *base.TerminationGracePeriodSeconds)
	}
}

func TestOntoNeverChangesTheUsersValue(t *testing.T) {
	t.Parallel()
	base := corev1.PodSpec{NodeSelector: map[string]string{"a": "1"}}
	user := corev1.PodSpec{NodeSelector: map[string]string{"b": "2"}, TerminationGracePeriodSeconds: ptr.To[int64](5)}
	want := user.DeepCopy()
	Onto(&base, &user)
	base.NodeSelector["c"] = "3"
	if diff := cmp.Diff(*want, user); diff != "" {
		t.Errorf("user's value changed:\n%s", diff)
	}
}
