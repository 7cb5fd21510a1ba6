// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"
)

func TestModelSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoModel", map[string]accepted{
		"type defaults to base": {spec: `{modelName: m, baseModelName: b}`, want: `{modelName: m, baseModelName: b, modelType: base}`},
		"base":                  {spec: `{modelName: m, baseModelName: b, modelType: base}`},
		"lora":                  {spec: `{modelName: m, baseModelName: b, modelType: lora, source: {uri: "s3://a/b"}}`},
		"adapter":               {spec: `{modelName: m, baseModelName: b, modelType: adapter}`},
		"lora of a hub":         {spec: `{modelName: m, baseModelName: b, modelType: lora, source: {uri: "hf://a/b@c"}}`},
		// Only the weights of a LoRA are fetched.
		"source of any scheme": {spec: `{modelName: m, baseModelName: b, modelType: adapter, source: {uri: "ftp://a"}}`},
	})
	checkRefused(t, "DynamoModel", map[string]refused{
		"no model name":          {spec: `{baseModelName: b}`, field: "spec.modelName"},
		"no base model name":     {spec: `{modelName: m}`, field: "spec.baseModelName"},
		"empty model name":       {spec: `{modelName: "", baseModelName: b}`, field: "spec.modelName", says: "name the model"},
		"empty base model name":  {spec: `{modelName: m, baseModelName: ""}`, field: "spec.baseModelName", says: "name the base model"},
		"lora without a source":  {spec: `{modelName: m, baseModelName: b, modelType: lora}`, field: "spec.source", says: "a lora needs a source"},
		"lora of any scheme":     {spec: `{modelName: m, baseModelName: b, modelType: lora, source: {uri: "ftp://a"}}`, field: "spec.source.uri", says: "s3:// or hf://"},
		"lora with an empty uri": {spec: `{modelName: m, baseModelName: b, modelType: lora, source: {uri: ""}}`, field: "spec.source.uri", says: "s3:// or hf://"},
		"source without uri":     {spec: `{modelName: m, baseModelName: b, source: {}}`, field: "spec.source.uri"},
		"unknown type":           {spec: `{modelName: m, baseModelName: b, modelType: LoRA}`, field: "spec.modelType", says: `supported values: "base", "lora", "adapter"`},
		"empty type":             {spec: `{modelName: m, baseModelName: b, modelType: ""}`, field: "spec.modelType"},
		"name of the wrong type": {spec: `{modelName: 1, baseModelName: b}`, field: "spec.modelName"},
		"source as text":         {spec: `{modelName: m, baseModelName: b, source: "s3://a"}`, field: "spec.source"},
		"unknown member":         {spec: `{modelName: m, baseModelName: b, revision: x}`, field: "spec.revision"},
		"unknown inner member":   {spec: `{modelName: m, baseModelName: b, source: {uri: u, region: r}}`, field: "spec.source.region"},
	})
}

func TestWhatAModelIsCannotBeChanged(t *testing.T) {
	t.Parallel()
	checkChanges(t, "DynamoModel", map[string]changed{
		"another type": {`{modelName: m, baseModelName: b}`, `{modelName: m, baseModelName: b, modelType: adapter}`, "modelType cannot be changed"},
		"another base": {`{modelName: m, baseModelName: b}`, `{modelName: m, baseModelName: c}`, "baseModelName cannot be changed"},
		"another name": {`{modelName: m, baseModelName: b}`, `{modelName: other, baseModelName: b, modelType: base}`, ""},
		"another source": {
			`{modelName: m, baseModelName: b, modelType: lora, source: {uri: "s3://a"}}`,
			`{modelName: m, baseModelName: b, modelType: lora, source: {uri: "hf://a"}}`, "",
		},
	})
}

func TestModelStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const spec = `{modelName: m, baseModelName: b}`
	checkStatusAccepted(t, "DynamoModel", spec, map[string]accepted{
		"counters alone":    {spec: `{readyEndpoints: 0, totalEndpoints: 0}`},
		"everything filled": {spec: `{readyEndpoints: 1, totalEndpoints: 2, observedGeneration: 1, endpoints: [{address: a, podName: p, ready: true}, {address: b, ready: false, message: loading}], conditions: [{` + condition + `}]}`},
	})
	checkStatusRefused(t, "DynamoModel", spec, conditionRefusals("readyEndpoints: 0\ntotalEndpoints: 0"))
	checkStatusRefused(t, "DynamoModel", spec, map[string]refused{
		"no ready counter":         {spec: `{totalEndpoints: 1}`, field: "status.readyEndpoints"},
		"no total counter":         {spec: `{readyEndpoints: 1}`, field: "status.totalEndpoints"},
		"endpoint without address": {spec: `{readyEndpoints: 0, totalEndpoints: 1, endpoints: [{ready: true}]}`, field: "status.endpoints[0].address"},
		"endpoint without ready":   {spec: `{readyEndpoints: 0, totalEndpoints: 1, endpoints: [{address: a}]}`, field: "status.endpoints[0].ready"},
		"counter as text":          {spec: `{readyEndpoints: "1", totalEndpoints: 1}`, field: "status.readyEndpoints"},
		"unknown member":           {spec: `{readyEndpoints: 0, totalEndpoints: 0, state: ready}`, field: "status.state"},
	})
}
