// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// PoolKind is what a gateway routes to, with an endpoint picker behind it.
var PoolKind = schema.GroupVersionKind{Group: names.InferenceGroup, Version: "v1", Kind: "InferencePool"}

// Picker is the endpoint picker of a graph.
type Picker struct {
	Namespace, Graph, Service string
	// Production is the workload of the graph's only frontend while another one is debugged beside it, else empty.
	Production string

	Spec *v1alpha1.DynamoComponentDeploymentSharedSpec
}

func (p Picker) labels() map[string]string {
	return map[string]string{
		names.LabelGraph: p.Graph, names.LabelComponent: p.Service, names.LabelComponentType: v1alpha1.ComponentTypeEPP,
	}
}

// PickerConfig renders the ConfigMap with the picker's configuration, nil where the user brings his own.
func PickerConfig(p Picker) (*corev1.ConfigMap, error) {
	if p.Spec.EPPConfig == nil || p.Spec.EPPConfig.Config == nil {
		return nil, nil
	}
	var config map[string]any
	if err := json.Unmarshal(p.Spec.EPPConfig.Config.Raw, &config); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	config["apiVersion"], config["kind"] = "inference.networking.x-k8s.io/v1alpha1", "EndpointPickerConfig"
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: names.EPPConfig(p.Graph), Namespace: p.Namespace, Labels: p.labels()},
		Data:       map[string]string{names.EPPConfigFile: string(text)},
	}, nil
}

// Pool renders the InferencePool: the graph's frontends, with the picker in front of them. Graphs that share a Dynamo
// namespace do not share frontends.
func Pool(p Picker) *unstructured.Unstructured {
	frontends := map[string]any{names.LabelComponentType: v1alpha1.ComponentTypeFrontend, names.LabelGraph: p.Graph}
	if p.Production != "" {
		frontends[names.LabelSelector] = p.Production
	}
	pool := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetPorts": []any{map[string]any{"number": int64(names.PortHTTPNumber)}},
		"selector":    map[string]any{"matchLabels": frontends},
		"endpointPickerRef": map[string]any{
			"kind": "Service", "name": names.Component(p.Graph, p.Service), "port": map[string]any{"number": int64(names.PortGRPCNumber)},
		},
	}}}
	pool.SetGroupVersionKind(PoolKind)
	pool.SetName(names.Pool(p.Graph))
	pool.SetNamespace(p.Namespace)
	pool.SetLabels(p.labels())
	return pool
}
