// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/belonging"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// adapters renders the scaling adapter of every service that hands its replicas over to one. It starts with the number
// that the service has. From then on the number is the autoscalers', so the adapter is made once and never changed.
func adapters(g *v1alpha1.DynamoGraphDeployment) []Object {
	var objects []Object
	for _, service := range slices.Sorted(maps.Keys(g.Spec.Services)) {
		spec := g.Spec.Services[service]
		if spec == nil || spec.ScalingAdapter == nil || !spec.ScalingAdapter.Enabled {
			continue
		}
		objects = append(objects, Object{Belonging: belonging.Once, Object: &v1alpha1.DynamoGraphDeploymentScalingAdapter{
			ObjectMeta: metav1.ObjectMeta{
				Name: names.Component(g.Name, service), Namespace: g.Namespace,
				Labels: map[string]string{names.LabelGraph: g.Name, names.LabelComponent: service},
			},
			Spec: v1alpha1.DynamoGraphDeploymentScalingAdapterSpec{
				Replicas: ptr.Deref(Replicas(g, service), 1),
				DGDRef:   v1alpha1.DynamoGraphDeploymentServiceRef{Name: g.Name, ServiceName: service},
			},
		}})
	}
	return objects
}
