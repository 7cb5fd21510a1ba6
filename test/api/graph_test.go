// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"
)

func TestGraphSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoGraphDeployment", map[string]accepted{
		"engine sglang":               {spec: `{services: {a: {}}, backendFramework: sglang}`},
		"engine vllm":                 {spec: `{services: {a: {}}, backendFramework: vllm}`},
		"engine trtllm":               {spec: `{services: {a: {}}, backendFramework: trtllm}`},
		"variables":                   {spec: `{services: {a: {}}, envs: [{name: A, value: b}, {name: A, value: c}]}`},
		"100 claims":                  {spec: "services: {a: {}}\npvcs:\n" + repeat(100, "- {name: c%d}\n")},
		"25 services":                 {spec: "services:\n" + repeat(25, "  s%d: {}\n")},
		"existing claim":              {spec: `{services: {a: {}}, pvcs: [{name: c}]}`},
		"claim not to be created":     {spec: `{services: {a: {}}, pvcs: [{name: c, create: false}]}`},
		"claim to be created":         {spec: `{services: {a: {}}, pvcs: [{name: c, create: true, size: 10Gi, storageClass: s, volumeAccessMode: ReadWriteMany}]}`},
		"claim of any access mode":    {spec: `{services: {a: {}}, pvcs: [{name: c, create: true, size: 10Gi, storageClass: s, volumeAccessMode: Often}]}`},
		"claim with a number as size": {spec: `{services: {a: {}}, pvcs: [{name: c, size: 10}]}`},
		"restart":                     {spec: `{services: {a: {}}, restart: {id: "1"}}`},
		"restart is sequential":       {spec: `{services: {a: {}}, restart: {id: "1", strategy: {}}}`, want: `{services: {a: {}}, restart: {id: "1", strategy: {type: Sequential}}}`},
		"restart in an order":         {spec: `{services: {a: {}, b: {}}, restart: {id: "1", strategy: {type: Sequential, order: [b, a]}}}`},
		"restart all at once":         {spec: `{services: {a: {}}, restart: {id: "1", strategy: {type: Parallel}}}`},
		"service names of mixed case": {spec: `{services: {VllmDecodeWorker: {replicas: 1}, vllmdecodeworker: {replicas: 2}}}`},
		"variable from a secret":      {spec: `{services: {a: {}}, envs: [{name: A, valueFrom: {secretKeyRef: {key: k}}}]}`, want: `{services: {a: {}}, envs: [{name: A, valueFrom: {secretKeyRef: {key: k, name: ""}}}]}`},
	})
	const (
		claimRule = "size, storageClass and volumeAccessMode are needed when create is true"
		emptyRule = "storageClass and volumeAccessMode must not be empty when create is true"
		orderRule = "the order of a restart names every service once, and nothing else"
	)
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
		"no services":                  {spec: `{}`, field: "spec.services", says: "name at least one service"},
		"empty services":               {spec: `{services: {}}`, field: "spec.services", says: "name at least one service"},
		"claim with an empty name":     {spec: `{services: {a: {}}, pvcs: [{name: ""}]}`, field: "spec.pvcs[0].name", says: "name the claim"},
		"new claim of an empty class":  {spec: `{services: {a: {}}, pvcs: [{name: c, create: true, size: 1Gi, storageClass: "", volumeAccessMode: m}]}`, field: "spec.pvcs[0]", says: emptyRule},
		"new claim of an empty mode":   {spec: `{services: {a: {}}, pvcs: [{name: c, create: true, size: 1Gi, storageClass: s, volumeAccessMode: ""}]}`, field: "spec.pvcs[0]", says: emptyRule},
		"parallel restart in an order": {spec: `{services: {a: {}}, restart: {id: b, strategy: {type: Parallel, order: [a]}}}`, field: "spec.restart.strategy.order", says: "a parallel restart has no order"},
		"order without a service":      {spec: `{services: {a: {}, b: {}}, restart: {id: b, strategy: {order: [a]}}}`, field: "spec.restart.strategy.order", says: orderRule},
		"order with a service twice":   {spec: `{services: {a: {}, b: {}}, restart: {id: b, strategy: {order: [a, a]}}}`, field: "spec.restart.strategy.order", says: orderRule},
		"order of unknown services":    {spec: `{services: {a: {}}, restart: {id: b, strategy: {order: [c]}}}`, field: "spec.restart.strategy.order", says: orderRule},
		"order of 26":                  {spec: "restart:\n  id: a\n  strategy:\n    order:\n" + repeat(26, "    - s%d\n"), field: "spec.restart.strategy.order", says: "at most 25 items"},
		"services as a list":           {spec: `{services: [{}]}`, field: "spec.services"},
		"unknown member":               {spec: `{service: {}}`, field: "spec.service"},
		"unknown member of a service":  {spec: `{services: {a: {replica: 1}}}`, field: "spec.services.a.replica"},
		"unknown member of a strategy": {spec: `{restart: {id: a, strategy: {kind: x}}}`, field: "spec.restart.strategy.kind"},
	})
}

func TestGraphStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const replicas = `{componentKind: PodClique, componentName: nm, replicas: 0, updatedReplicas: 0}`
	checkStatusAccepted(t, "DynamoGraphDeployment", `{services: {a: {}}}`, map[string]accepted{
		"states have no enum":         {spec: `{state: anything}`},
		"restart phases have no enum": {spec: `{restart: {observedID: a, phase: Anything, inProgress: [b]}}`},
		"everything filled":           {spec: `{state: successful, observedGeneration: 1, conditions: [{` + condition + `}], services: {a: ` + replicas + `}, restart: {observedID: a, phase: Completed}, checkpoints: {a: {checkpointName: c, identityHash: h, ready: true, message: m}}}`},
	})
	checkStatusRefused(t, "DynamoGraphDeployment", `{services: {a: {}}}`, merged(conditionRefusals("state: pending"),
		replicaRefusals("status.services.a", "{services: {a: REPLICAS}}"), map[string]refused{
			"unknown member":                 {spec: `{phase: a}`, field: "status.phase"},
			"unknown member of a checkpoint": {spec: `{checkpoints: {a: {hash: b}}}`, field: "status.checkpoints.a.hash"},
		}))
}

func TestWhatAGraphIsCannotBeChanged(t *testing.T) {
	t.Parallel()
	const (
		services  = "services cannot be added, removed or renamed on a graph that exists"
		framework = "backendFramework cannot be changed"
		nodes     = "a service cannot be moved between one node and several"
	)
	checkChanges(t, "DynamoGraphDeployment", map[string]changed{
		"a service changes":       {`{services: {a: {replicas: 1}, b: {}}}`, `{services: {a: {replicas: 2}, b: {}}}`, ""},
		"a service is added":      {`{services: {a: {}}}`, `{services: {a: {}, b: {}}}`, services},
		"a service is removed":    {`{services: {a: {}, b: {}}}`, `{services: {a: {}}}`, services},
		"a service is renamed":    {`{services: {a: {}}}`, `{services: {A: {}}}`, services},
		"something else changes":  {`{services: {a: {}}, envs: [{name: A}]}`, `{services: {a: {}}}`, ""},
		"the first services come": {``, `{services: {a: {}}}`, ""},
		"all services go":         {`{services: {a: {}}}`, `{}`, "name at least one service"},
		"another engine":          {`{services: {a: {}}, backendFramework: vllm}`, `{services: {a: {}}, backendFramework: sglang}`, framework},
		"an engine comes":         {`{services: {a: {}}}`, `{services: {a: {}}, backendFramework: sglang}`, framework},
		"an engine goes":          {`{services: {a: {}}, backendFramework: vllm}`, `{services: {a: {}}}`, framework},
		"more nodes":              {`{services: {a: {multinode: {nodeCount: 2}}}}`, `{services: {a: {multinode: {nodeCount: 4}}}}`, ""},
		"from one node":           {`{services: {a: {}, b: {}}}`, `{services: {a: {multinode: {nodeCount: 2}}, b: {}}}`, nodes},
		"to one node":             {`{services: {a: {multinode: {nodeCount: 2}}}}`, `{services: {a: {}}}`, nodes},
	})
}
