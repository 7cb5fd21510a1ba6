// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"
)

func TestWorkerMetadataSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoWorkerMetadata", map[string]accepted{
		"nothing to publish": {spec: `{data: {}}`},
		"a usual payload": {
			spec: `{data: {endpoints: {a/b/generate: {type: Endpoint, namespace: a, component: b, endpoint: generate, instance_id: 9223372036854775807, transport: nats_tcp}}, model_cards: {x: {w: [1, "2", null, {z: 0.5}]}}}}`,
		},
	})
	checkRefused(t, "DynamoWorkerMetadata", map[string]refused{
		"no data":        {spec: `{}`, field: "spec.data"},
		"null data":      {spec: `{data: null}`, field: "spec.data"},
		"data as text":   {spec: `{data: text}`, field: "spec.data"},
		"data as a list": {spec: `{data: []}`, field: "spec.data"},
		"unknown member": {spec: `{data: {}, more: {}}`, field: "spec.more"},
	})
}
