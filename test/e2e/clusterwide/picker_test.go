// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterwide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
	"github.com/dynamo-operator/dynamo-operator/test/builders"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func anEditedPickerConfigurationArrives(t *testing.T) {
	ns := harness.Namespace(t)
	config := func(weight string) *v1alpha1.EPPConfig {
		return &v1alpha1.EPPConfig{Config: &apiextensionsv1.JSON{Raw: []byte(
			`{"plugins":[{"type":"kv-aware","parameters":{"weight":` + weight + `}}],"schedulingProfiles":[]}`)}}
	}
	g := builders.TwoComponents(ns, "chat").Service("Epp", v1alpha1.ComponentTypeEPP).Obj()
	g.Spec.Services["Epp"].EPPConfig = config("1")
	create(t, g)
	harness.AwaitReady(t, ns, "chat")
	harness.Change(t, client.ObjectKeyFromObject(g), func(g *v1alpha1.DynamoGraphDeployment) {
		g.Spec.Services["Epp"].EPPConfig = config("2")
	})
	harness.Eventually(t, patience, "the ConfigMap has the new weight", func() (bool, string) {
		var c corev1.ConfigMap
		read(t, ns, names.EPPConfig("chat"), &c)
		text := c.Data[names.EPPConfigFile]
		return strings.Contains(text, "weight: 2"), text
	})
}
