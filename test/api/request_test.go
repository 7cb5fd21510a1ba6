// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"
)

func TestRequestSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const defaults = `useMocker: false, enableGpuDiscovery: false, autoApply: false`
	cases := map[string]accepted{
		"switches default to off": {
			spec: `{model: m, backend: vllm, profilingConfig: {profilerImage: i, config: {}}}`,
			want: `{model: m, backend: vllm, ` + defaults + `, profilingConfig: {profilerImage: i, config: {}}}`,
		},
		"everything given": {
			spec: `{model: m, backend: vllm, useMocker: true, enableGpuDiscovery: true, autoApply: true, profilingConfig: {profilerImage: i, outputPVC: o, configMapRef: {name: nm, key: k}, resources: {limits: {cpu: 1, memory: 1Gi}, claims: [{name: c}]}, tolerations: [{key: k, operator: Exists}], config: {sla: {ttft: 200.5, isl: 3000}, engine: {backend: sglang}, free: [{form: true}]}}, deploymentOverrides: {name: nm, namespace: s, labels: {a: b}, annotations: {c: d}, workersImage: w}}`,
		},
		"key of the base manifest has a default": {
			spec: `{model: m, backend: vllm, ` + defaults + `, profilingConfig: {profilerImage: i, config: {}, configMapRef: {name: nm}}}`,
			want: `{model: m, backend: vllm, ` + defaults + `, profilingConfig: {profilerImage: i, config: {}, configMapRef: {name: nm, key: disagg.yaml}}}`,
		},
		"empty configuration": {spec: `{model: m, backend: vllm, ` + defaults + `, profilingConfig: {profilerImage: i, config: {}}}`},
	}
	for _, engine := range []string{"vllm", "sglang", "trtllm"} {
		cases["engine "+engine] = accepted{spec: `{model: m, backend: ` + engine + `, ` + defaults + `, profilingConfig: {profilerImage: i, config: {}}}`}
	}
	checkAccepted(t, "DynamoGraphDeploymentRequest", cases)

	profiling := func(members string) string {
		return `{model: m, backend: vllm, profilingConfig: {profilerImage: i, ` + members + `}}`
	}
	checkRefused(t, "DynamoGraphDeploymentRequest", map[string]refused{
		"no model":                       {spec: `{backend: vllm, profilingConfig: {profilerImage: i}}`, field: "spec.model"},
		"no engine":                      {spec: `{model: m, profilingConfig: {profilerImage: i}}`, field: "spec.backend"},
		"no profiling":                   {spec: `{model: m, backend: vllm}`, field: "spec.profilingConfig"},
		"no image":                       {spec: `{model: m, backend: vllm, profilingConfig: {config: {a: b}}}`, field: "spec.profilingConfig.profilerImage"},
		"empty image":                    {spec: `{model: m, backend: vllm, profilingConfig: {profilerImage: "", config: {}}}`, field: "spec.profilingConfig.profilerImage", says: "name the image of the profiler"},
		"no configuration":               {spec: `{model: m, backend: vllm, profilingConfig: {profilerImage: i}}`, field: "spec.profilingConfig.config", says: "say what to profile for"},
		"null configuration":             {spec: profiling(`config: null`), field: "spec.profilingConfig.config", says: "say what to profile for"},
		"unknown engine":                 {spec: `{model: m, backend: auto, profilingConfig: {profilerImage: i}}`, field: "spec.backend", says: `supported values: "vllm", "sglang", "trtllm"`},
		"configuration as text":          {spec: profiling(`config: text`), field: "spec.profilingConfig.config"},
		"configuration as a list":        {spec: profiling(`config: [1]`), field: "spec.profilingConfig.config"},
		"base manifest without a name":   {spec: profiling(`configMapRef: {key: k}`), field: "spec.profilingConfig.configMapRef.name"},
		"base manifest is not optional":  {spec: profiling(`configMapRef: {name: nm, optional: true}`), field: "spec.profilingConfig.configMapRef.optional"},
		"claim without a name":           {spec: profiling(`resources: {claims: [{}]}`), field: "spec.profilingConfig.resources.claims[0].name"},
		"the same claim twice":           {spec: profiling(`resources: {claims: [{name: a}, {name: a}]}`), field: "spec.profilingConfig.resources.claims[1]", says: "Duplicate value"},
		"malformed amount":               {spec: profiling(`resources: {limits: {cpu: lots}}`), field: "spec.profilingConfig.resources.limits.cpu"},
		"toleration seconds as text":     {spec: profiling(`tolerations: [{tolerationSeconds: a}]`), field: "spec.profilingConfig.tolerations[0].tolerationSeconds"},
		"switch as text":                 {spec: `{model: m, backend: vllm, autoApply: "yes", profilingConfig: {profilerImage: i}}`, field: "spec.autoApply"},
		"image of an older release":      {spec: `{model: m, backend: vllm, profilerImage: i, profilingConfig: {profilerImage: i}}`, field: "spec.profilerImage"},
		"unknown member of an override":  {spec: `{model: m, backend: vllm, profilingConfig: {profilerImage: i}, deploymentOverrides: {image: a}}`, field: "spec.deploymentOverrides.image"},
		"override label as a number":     {spec: `{model: m, backend: vllm, profilingConfig: {profilerImage: i}, deploymentOverrides: {labels: {a: 1}}}`, field: "spec.deploymentOverrides.labels.a"},
		"unknown member of profiling":    {spec: profiling(`image: i`), field: "spec.profilingConfig.image"},
		"node selector is no member yet": {spec: profiling(`nodeSelector: {a: b}`), field: "spec.profilingConfig.nodeSelector"},
	})
}

func TestRequestStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const spec = `{model: m, backend: vllm, profilingConfig: {profilerImage: i, config: {}}}`
	const generated = `{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: g, labels: {a: b}}, spec: {services: {a: {later: [1]}}}}`
	checkStatusAccepted(t, "DynamoGraphDeploymentRequest", spec, map[string]accepted{
		"nothing":             {spec: `{}`},
		"states have no enum": {spec: `{state: Anything}`},
		"everything filled":   {spec: `{state: Ready, backend: vllm, observedGeneration: 1, conditions: [{` + condition + `}], profilingResults: configmap/c, generatedDeployment: ` + generated + `, deployment: {name: nm, namespace: s, state: successful, created: true}}`},
	})
	checkStatusRefused(t, "DynamoGraphDeploymentRequest", spec, merged(conditionRefusals("state: Pending"), map[string]refused{
		"generated object as text":         {spec: `{generatedDeployment: text}`, field: "status.generatedDeployment"},
		"unknown member":                   {spec: `{phase: a}`, field: "status.phase"},
		"unknown member of the deployment": {spec: `{deployment: {ready: true}}`, field: "status.deployment.ready"},
	}))
}
