// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

func TestReplicasAreTheServicesOwnOrThoseOfTheLegacyVariable(t *testing.T) {
	t.Parallel()
	workers := func(text string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: v1alpha1.DeploymentConfigEnv, Value: text}}
	}
	const three, four = `{"s": {"ServiceArgs": {"Workers": 3}}}`, `{"s": {"serviceargs": {"workers": 4}}}`
	elsewhere := []corev1.EnvVar{{Name: v1alpha1.DeploymentConfigEnv, ValueFrom: &corev1.EnvVarSource{}}}
	for name, tc := range map[string]struct {
		own          *int32
		graph, envs  []corev1.EnvVar
		want         int32
		isUndecided  bool
		noSuchMember bool
	}{
		"nothing is said":              {isUndecided: true},
		"the service says it":          {own: new(int32(2)), envs: workers(three), want: 2},
		"the variable of the service":  {graph: workers(three), envs: workers(four), want: 4},
		"the variable of the graph":    {graph: workers(three), want: 3},
		"a variable that is not known": {graph: workers(three), envs: elsewhere, isUndecided: true},
		"a variable about others":      {envs: workers(`{"other": {"ServiceArgs": {"Workers": 3}}}`), isUndecided: true},
		"a text that is none":          {envs: workers(`[]`), isUndecided: true},
		"no such service":              {noSuchMember: true, isUndecided: true},
	} {
		g := &v1alpha1.DynamoGraphDeployment{Spec: v1alpha1.DynamoGraphDeploymentSpec{
			Envs: tc.graph, Services: map[string]*v1alpha1.DynamoComponentDeploymentSharedSpec{"s": {Replicas: tc.own, Envs: tc.envs}},
		}}
		service := "s"
		if tc.noSuchMember {
			service = "t"
		}
		if got := Replicas(g, service); (got == nil) != tc.isUndecided || ptr.Deref(got, 0) != tc.want {
			t.Errorf("%s: got %v", name, ptr.Deref(got, -1))
		}
	}
}
