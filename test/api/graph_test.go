// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestGraphSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoGraphDeployment", map[string]accepted{
		"nothing":                     {spec: `{}`},
		"engine sglang":               {spec: `{backendFramework: sglang}`},
		"engine vllm":                 {spec: `{backendFramework: vllm}`},
		"engine trtllm":               {spec: `{backendFramework: trtllm}`},
		"variables":                   {spec: `{envs: [{name: A, value: b}, {name: A, value: c}]}`},
		"100 claims":                  {spec: "pvcs:\n" + repeat(100, "- {name: c%d}\n")},
		"25 services":                 {spec: "services:\n" + repeat(25, "  s%d: {}\n")},
		"existing claim":              {spec: `{pvcs: [{name: c}]}`},
		"claim not to be created":     {spec: `{pvcs: [{name: c, create: false}]}`},
		"claim to be created":         {spec: `{pvcs: [{name: c, create: true, size: 10Gi, storageClass: s, volumeAccessMode: ReadWriteMany}]}`},
		"claim of any access mode":    {spec: `{pvcs: [{name: c, create: true, size: 10Gi, storageClass: "", volumeAccessMode: Often}]}`},
		"claim with a number as size": {spec: `{pvcs: [{name: c, size: 10}]}`},
		"claim with an empty name":    {spec: `{pvcs: [{name: ""}]}`},
		"restart":                     {spec: `{restart: {id: "1"}}`},
		"restart is sequential":       {spec: `{restart: {id: "1", strategy: {}}}`, want: `{restart: {id: "1", strategy: {type: Sequential}}}`},
		"restart in an order":         {spec: `{restart: {id: "1", strategy: {type: Sequential, order: [b, a]}}}`},
		"restart all at once":         {spec: `{restart: {id: "1", strategy: {type: Parallel}}}`},
		"service names of mixed case": {spec: `{services: {VllmDecodeWorker: {replicas: 1}, vllmdecodeworker: {replicas: 2}}}`},
		"variable from a secret":      {spec: `{envs: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]}`, want: `{envs: [{name: A, valueFrom: {secretKeyRef: {key: k, name: ""}}}]}`},
	})
	const claimRule = "size, storageClass and volumeAccessMode are needed when create is true"
	checkRefused(t, "DynamoGraphDeployment", map[string]refused{
		"unknown engine":               {spec: `{backendFramework: VLLM}`, field: "spec.backendFramework", says: `supported values: "sglang", "vllm", "trtllm"`},
		"101 claims":                   {spec: "pvcs:\n" + repeat(101, "- {name: c%d}\n"), field: "spec.pvcs", says: "at most 100 items"},
		"26 services":                  {spec: "services:\n" + repeat(26, "  s%d: {}\n"), field: "spec.services", says: "at most 25 items"},
		"claim without a name":         {spec: `{pvcs: [{create: false}]}`, field: "spec.pvcs[0].name"},
		"claim with a null name":       {spec: `{pvcs: [{name: null}]}`, field: "spec.pvcs[0].name"},
		"new claim of no size":         {spec: `{pvcs: [{name: c, create: true, storageClass: s, volumeAccessMode: m}]}`, field: "spec.pvcs[0]", says: claimRule},
		"new claim of no class":        {spec: `{pvcs: [{name: c, create: true, size: 1Gi, volumeAccessMode: m}]}`, field: "spec.pvcs[0]", says: claimRule},
		"new claim of no access mode":  {spec: `{pvcs: [{name: c, create: true, size: 1Gi, storageClass: s}]}`, field: "spec.pvcs[0]", says: claimRule},
		"claim of a malformed size":    {spec: `{pvcs: [{name: c, size: large}]}`, field: "spec.pvcs[0].size"},
		"claim switch as text":         {spec: `{pvcs: [{name: c, create: "yes"}]}`, field: "spec.pvcs[0].create"},
		"unknown member of a claim":    {spec: `{pvcs: [{name: c, class: s}]}`, field: "spec.pvcs[0].class"},
		"variable without a name":      {spec: `{envs: [{value: b}]}`, field: "spec.envs[0].name"},
		"restart without an id":        {spec: `{restart: {}}`, field: "spec.restart.id"},
		"restart with an empty id":     {spec: `{restart: {id: ""}}`, field: "spec.restart.id", says: "at least 1 chars long"},
		"restart with a number as id":  {spec: `{restart: {id: 1}}`, field: "spec.restart.id"},
		"restart of an unknown kind":   {spec: `{restart: {id: a, strategy: {type: sequential}}}`, field: "spec.restart.strategy.type", says: `supported values: "Sequential", "Parallel"`},
		"restart order of numbers":     {spec: `{restart: {id: a, strategy: {order: [1]}}}`, field: "spec.restart.strategy.order[0]"},
		"services as a list":           {spec: `{services: [{}]}`, field: "spec.services"},
		"unknown member":               {spec: `{service: {}}`, field: "spec.service"},
		"unknown member of a service":  {spec: `{services: {a: {replica: 1}}}`, field: "spec.services.a.replica"},
		"unknown member of a strategy": {spec: `{restart: {id: a, strategy: {kind: x}}}`, field: "spec.restart.strategy.kind"},
	})
}

func TestGraphStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const replicas = `{componentKind: PodClique, componentName: nm, replicas: 0, updatedReplicas: 0}`
	checkStatusAccepted(t, "DynamoGraphDeployment", `{}`, map[string]accepted{
		"states have no enum":         {spec: `{state: anything}`},
		"restart phases have no enum": {spec: `{restart: {observedID: a, phase: Anything, inProgress: [b]}}`},
		"everything filled":           {spec: `{state: successful, observedGeneration: 1, conditions: [{` + condition + `}], services: {a: ` + replicas + `}, restart: {observedID: a, phase: Completed}, checkpoints: {a: {checkpointName: c, identityHash: h, ready: true, message: m}}}`},
	})
	checkStatusRefused(t, "DynamoGraphDeployment", `{}`, merged(conditionRefusals("state: pending"),
		replicaRefusals("status.services.a", "{services: {a: REPLICAS}}"), map[string]refused{
			"unknown member":                 {spec: `{phase: a}`, field: "status.phase"},
			"unknown member of a checkpoint": {spec: `{checkpoints: {a: {hash: b}}}`, field: "status.checkpoints.a.hash"},
		}))
}

func TestServicesOfAGraphThatExistsCannotComeOrGo(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	const rule = "services cannot be added, removed or renamed on a graph that exists"
	for name, tc := range map[string]struct {
		was, is string
		says    string
	}{
		"a service changes":       {`{services: {a: {replicas: 1}, b: {}}}`, `{services: {a: {replicas: 2}, b: {}}}`, ""},
		"a service is added":      {`{services: {a: {}}}`, `{services: {a: {}, b: {}}}`, rule},
		"a service is removed":    {`{services: {a: {}, b: {}}}`, `{services: {a: {}}}`, rule},
		"a service is renamed":    {`{services: {a: {}}}`, `{services: {A: {}}}`, rule},
		"something else changes":  {`{services: {a: {}}, envs: [{name: A}]}`, `{services: {a: {}}}`, ""},
		"the first services come": {`{}`, `{services: {a: {}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := update(t, mustCreate(t, namespace, "DynamoGraphDeployment", tc.was), func(spec map[string]any) {
				clear(spec)
				maps.Copy(spec, parse(t, tc.is))
			})
			if (err == nil) != (tc.says == "") || (err != nil && !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}
