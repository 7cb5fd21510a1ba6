// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apis knows which optional APIs a cluster may serve, and notices while the operator runs when one comes or
// goes.
package apis

import (
	grovev1alpha1 "github.com/ai-dynamo/grove/operator/api/core/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
	"github.com/dynamo-operator/dynamo-operator/internal/render/network"
	"github.com/dynamo-operator/dynamo-operator/internal/render/workload/lws"
)

// API is an optional API. It is served when all its kinds are.
type API string

// The optional APIs.
const (
	Grove         API = "grove"
	LWS           API = "lws"
	Volcano       API = "volcano"
	KAI           API = "kai"
	InferencePool API = "inferencepool"
	Istio         API = "istio"
)

// Kinds of the optional APIs that renderers do not know.
var (
	CliqueSetKind    = grovev1alpha1.SchemeGroupVersion.WithKind("PodCliqueSet")
	CliqueKind       = grovev1alpha1.SchemeGroupVersion.WithKind("PodClique")
	ScalingGroupKind = grovev1alpha1.SchemeGroupVersion.WithKind("PodCliqueScalingGroup")
	GroupSetKind     = lwsv1.GroupVersion.WithKind("LeaderWorkerSet")
	QueueKind        = schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2", Kind: "Queue"}
)

// entry is one API: its kinds, the plural names of their definitions, and where it stands among the capabilities.
type entry struct {
	api     API
	kinds   []schema.GroupVersionKind
	plurals []string
	flag    func(*input.Capabilities) *bool
}

// table is every optional API.
func table() []entry {
	return []entry{
		{
			api: Grove, kinds: []schema.GroupVersionKind{CliqueSetKind, CliqueKind, ScalingGroupKind},
			plurals: []string{"podcliquesets", "podcliques", "podcliquescalinggroups"},
			flag:    func(c *input.Capabilities) *bool { return &c.Grove },
		},
		{
			api: LWS, kinds: []schema.GroupVersionKind{GroupSetKind}, plurals: []string{"leaderworkersets"},
			flag: func(c *input.Capabilities) *bool { return &c.LWS },
		},
		{
			api: Volcano, kinds: []schema.GroupVersionKind{lws.PodGroupKind}, plurals: []string{"podgroups"},
			flag: func(c *input.Capabilities) *bool { return &c.Volcano },
		},
		{
			api: KAI, kinds: []schema.GroupVersionKind{QueueKind}, plurals: []string{"queues"},
			flag: func(c *input.Capabilities) *bool { return &c.KAI },
		},
		{
			api: InferencePool, kinds: []schema.GroupVersionKind{network.PoolKind}, plurals: []string{"inferencepools"},
			flag: func(c *input.Capabilities) *bool { return &c.InferencePool },
		},
		{
			api: Istio, kinds: []schema.GroupVersionKind{network.VirtualServiceKind}, plurals: []string{"virtualservices"},
			flag: func(c *input.Capabilities) *bool { return &c.Istio },
		},
	}
}

// ResourceOf is where objects of an optional kind are served, and whether the kind is one. All but queues are namespaced.
func ResourceOf(kind schema.GroupKind) (schema.GroupVersionResource, bool) {
	for _, e := range table() {
		for i, k := range e.kinds {
			if k.GroupKind() == kind {
				return k.GroupVersion().WithResource(e.plurals[i]), true
			}
		}
	}
	return schema.GroupVersionResource{}, false
}

// definitions are the names of the CustomResourceDefinitions that matter.
func definitions() map[string]bool {
	all := map[string]bool{}
	for _, e := range table() {
		for i, plural := range e.plurals {
			all[plural+"."+e.kinds[i].Group] = true
		}
	}
	return all
}
