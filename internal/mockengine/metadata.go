// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Role is the part of the work that a worker does.
type Role string

// Roles of workers.
const (
	// RoleAggregated reads prompts and writes answers.
	RoleAggregated Role = "aggregated"
	// RolePrefill only reads prompts.
	RolePrefill Role = "prefill"
	// RoleDecode writes answers to prompts that another has read, and reads them itself if there is no other.
	RoleDecode Role = "decode"
)

// What is in the payload of a DynamoWorkerMetadata.
const (
	typeEndpoint  = "Endpoint"
	typeModel     = "Model"
	transportHTTP = "http"
)

// EndpointName is the endpoint under which workers generate.
const EndpointName = "generate"

// Metadata is what a worker publishes about itself: the payload of its DynamoWorkerMetadata.
type Metadata struct {
	// Endpoints are by "<namespace>/<component>/<endpoint>".
	Endpoints map[string]EndpointEntry `json:"endpoints"`
	// ModelCards are by the same key, for adapters followed by a slash and their name.
	ModelCards map[string]ModelEntry `json:"model_cards"`
}

// EndpointEntry is one endpoint of a worker.
type EndpointEntry struct {
	Type       string `json:"type"`
	Namespace  string `json:"namespace"`
	Component  string `json:"component"`
	Endpoint   string `json:"endpoint"`
	InstanceID uint64 `json:"instance_id"`
	Transport  string `json:"transport"`
}

// ModelEntry is one model, or adapter, that an endpoint serves.
type ModelEntry struct {
	Type       string `json:"type"`
	Namespace  string `json:"namespace"`
	Component  string `json:"component"`
	Endpoint   string `json:"endpoint"`
	InstanceID uint64 `json:"instance_id"`
	Card       Card   `json:"card_json"`
}

// Card describes a model.
type Card struct {
	// Name is what clients ask for.
	Name string `json:"display_name"`
	// Base is the model that an adapter changes; empty for a base model.
	Base string `json:"base_model,omitempty"`
	// Role is the part of the work that the worker does for the model.
	Role          Role `json:"role"`
	ContextLength int  `json:"context_length,omitempty"`
	// BlockSize is the number of tokens by which prompts are compared.
	BlockSize int `json:"kv_cache_block_size,omitempty"`
}

// Identity is how a worker is called.
type Identity struct {
	// Instance is the name of its pod.
	Instance string
	// Namespace and Component are those of Dynamo.
	Namespace, Component string
}

// InstanceID is the number by which a worker is known: a hash of the name of its pod. It has 63 bits, because Kubernetes
// does not keep all digits of larger numbers.
func InstanceID(instance string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(instance)) // a hash takes everything
	return sum.Sum64() >> 1
}

// describe builds the payload of a worker.
func describe(id Identity, base Card, adapters []string) Metadata {
	key := strings.Join([]string{id.Namespace, id.Component, EndpointName}, "/")
	number := InstanceID(id.Instance)
	entry := ModelEntry{
		Type: typeModel, Namespace: id.Namespace, Component: id.Component, Endpoint: EndpointName, InstanceID: number, Card: base,
	}
	m := Metadata{
		Endpoints: map[string]EndpointEntry{key: {
			Type: typeEndpoint, Namespace: id.Namespace, Component: id.Component, Endpoint: EndpointName,
			InstanceID: number, Transport: transportHTTP,
		}},
		ModelCards: map[string]ModelEntry{key: entry},
	}
	for _, adapter := range adapters {
		entry.Card.Name, entry.Card.Base = adapter, base.Name
		m.ModelCards[key+"/"+adapter] = entry
	}
	return m
}

// Instance is a worker as a front end sees it.
type Instance struct {
	// Name is that of its pod, Address the host and port of its system port.
	Name, Address string
	Metadata      Metadata
}

// cards returns what an instance serves in a Dynamo namespace, in the order of their keys; in all if none is named. An endpoint
// that the instance does not publish has no models, whatever its cards say.
func (i Instance) cards(namespace string) []Card {
	var cards []Card
	for _, key := range slices.Sorted(maps.Keys(i.Metadata.ModelCards)) {
		entry := i.Metadata.ModelCards[key]
		if entry.Card.Name == "" || namespace != "" && entry.Namespace != namespace {
			continue
		}
		served := slices.ContainsFunc(slices.Collect(maps.Values(i.Metadata.Endpoints)), func(e EndpointEntry) bool {
			return e.Namespace == entry.Namespace && e.Component == entry.Component && e.Endpoint == entry.Endpoint
		})
		if served {
			cards = append(cards, entry.Card)
		}
	}
	return cards
}
