// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"maps"
	"strings"
	"testing"
)

// componentAccepted are component specs that are stored. A DynamoComponentDeployment has them as its spec, a graph as
// each of its services, and both must treat them alike.
func componentAccepted() map[string]accepted {
	return map[string]accepted{
		"nothing": {spec: `{}`},
		"free component types": {
			spec: `{componentType: anything, subComponentType: finer, serviceName: Name}`,
		},
		"metadata": {
			spec: `{annotations: {a: b}, labels: {c: d}, extraPodMetadata: {annotations: {e: f}, labels: {g: h}}}`,
		},
		"dynamo namespace": {spec: `{dynamoNamespace: old, globalDynamoNamespace: true}`},
		"resources": {
			spec: `{resources: {requests: {cpu: "1", memory: 2Gi, gpu: "1", gpuType: example.com/gpu, custom: {example.com/nic: "1"}}, limits: {cpu: "2", memory: 4Gi, gpu: "1", gpuType: example.com/gpu, custom: {example.com/nic: "1"}}, claims: [{name: a, request: b}, {name: a}]}}`,
		},
		// Amounts are read when the component is rendered, not by the schema.
		"resource amounts that are no quantities": {spec: `{resources: {limits: {cpu: lots}}}`},
		"deprecated autoscaling": {
			spec: `{autoscaling: {enabled: true, minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}], behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}}`,
		},
		"environment": {
			spec: `{envFromSecret: keys, envs: [{name: A, value: b}, {name: A, value: c}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
		},
		"cache switch of a mount defaults to off": {
			spec: `{volumeMounts: [{name: a, mountPoint: /a}, {name: b, useAsCompilationCache: true}]}`,
			want: `{volumeMounts: [{name: a, mountPoint: /a, useAsCompilationCache: false}, {name: b, useAsCompilationCache: true}]}`,
		},
		"ingress": {
			spec: `{ingress: {enabled: true, host: h, useVirtualService: true, virtualServiceGateway: g, hostPrefix: p, hostSuffix: s, ingressControllerClassName: c, annotations: {a: b}, labels: {c: d}, tls: {secretName: t}}}`,
		},
		"ingress that is off": {spec: `{ingress: {enabled: false, tls: {}}}`},
		"shared memory off":   {spec: `{sharedMemory: {disabled: true}}`},
		"model reference":     {spec: `{modelRef: {name: m, revision: r}}`},
		"shared memory":       {spec: `{sharedMemory: {disabled: false, size: 16Gi}}`},
		"shared memory as a number, without unit and as zero": {
			spec: `{sharedMemory: {size: 0}}`,
		},
		"probes": {
			spec: `{livenessProbe: {httpGet: {path: /live, port: 9090}, periodSeconds: 5}, readinessProbe: {exec: {command: ["true"]}}}`,
		},
		"zero replicas":                   {spec: `{replicas: 0}`},
		"node count defaults to two":      {spec: `{multinode: {}}`, want: `{multinode: {nodeCount: 2}}`},
		"more nodes":                      {spec: `{multinode: {nodeCount: 16}}`},
		"scaling adapter defaults to off": {spec: `{scalingAdapter: {}}`, want: `{scalingAdapter: {enabled: false}}`},
		"scaling adapter on":              {spec: `{scalingAdapter: {enabled: true}}`},
	}
}

// overlayAccepted are pod overlays that are stored.
func overlayAccepted() map[string]accepted {
	return map[string]accepted{
		"overlay without anything":         {spec: `{extraPodSpec: {}}`},
		"overlay of a nameless container":  {spec: `{extraPodSpec: {mainContainer: {image: "engine:1", args: ["--x"]}}}`},
		"overlay without containers":       {spec: `{extraPodSpec: {nodeSelector: {a: b}, priorityClassName: high}}`},
		"overlay with a further container": {spec: `{extraPodSpec: {containers: [{name: side, image: "side:1"}]}}`},
		"overlay with a null list":         {spec: `{extraPodSpec: {containers: null, hostname: h}}`, want: `{extraPodSpec: {hostname: h}}`},
		"upstream defaults": {
			spec: `{extraPodSpec: {mainContainer: {ports: [{containerPort: 1}], livenessProbe: {grpc: {port: 1}}, envFrom: [{secretRef: {}}]}, volumes: [{name: d, azureDisk: {diskName: d, diskURI: u}}], imagePullSecrets: [{}]}}`,
			want: `{extraPodSpec: {mainContainer: {ports: [{containerPort: 1, protocol: TCP}], livenessProbe: {grpc: {port: 1, service: ""}}, envFrom: [{secretRef: {name: ""}}]}, volumes: [{name: d, azureDisk: {diskName: d, diskURI: u, fsType: ext4, readOnly: false}}], imagePullSecrets: [{name: ""}]}}`,
		},
		"labels of an ephemeral volume claim": {
			spec: `{extraPodSpec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}}`,
		},
	}
}

// pickerAccepted are endpoint picker settings that are stored.
func pickerAccepted() map[string]accepted {
	return map[string]accepted{
		"picker configuration in a ConfigMap": {
			spec: `{eppConfig: {configMapRef: {key: k}}}`, want: `{eppConfig: {configMapRef: {key: k, name: ""}}}`,
		},
		"picker configuration in an optional ConfigMap": {spec: `{eppConfig: {configMapRef: {key: k, name: nm, optional: true}}}`},
		"structured parameters of a picker plugin": {
			spec: `{eppConfig: {config: {plugins: [{type: p, name: nm, parameters: {depth: 2, list: [1, {x: z}], fast: true}}], schedulingProfiles: [{name: d, plugins: [{pluginRef: nm, weight: 3}, {pluginRef: nm}]}]}}}`,
		},
		"text parameters of a picker plugin": {
			spec: `{eppConfig: {config: {plugins: [{type: p, parameters: eyJhIjoxfQ==}, {type: q, parameters: 3}, {type: r, parameters: [1]}], schedulingProfiles: []}}}`,
		},
		"picker configuration with members we do not know": {
			spec: `{eppConfig: {config: {apiVersion: v, kind: k, plugins: [], schedulingProfiles: [], newer: {a: [b]}}}}`,
		},
		"all members of a picker configuration": {
			spec: `{eppConfig: {config: {featureGates: [a], saturationDetector: {queueDepthThreshold: 5, kvCacheUtilThreshold: 0.8, metricsStalenessThreshold: 200ms}, plugins: [], schedulingProfiles: []}}}`,
		},
	}
}

// checkpointAccepted are checkpoint settings that are stored.
func checkpointAccepted() map[string]accepted {
	return map[string]accepted{
		"checkpoint off by default": {spec: `{checkpoint: {}}`, want: `{checkpoint: {enabled: false, mode: Auto}}`},
		"checkpoint by reference": {
			spec: `{checkpoint: {enabled: true, checkpointRef: c}}`, want: `{checkpoint: {enabled: true, mode: Auto, checkpointRef: c}}`,
		},
		"checkpoint by identity": {
			spec: `{checkpoint: {enabled: true, mode: Manual, identity: {model: m, backendFramework: vllm}}}`,
			want: `{checkpoint: {enabled: true, mode: Manual, identity: {model: m, backendFramework: vllm, tensorParallelSize: 1, pipelineParallelSize: 1}}}`,
		},
		"checkpoint with the whole identity": {
			spec: `{checkpoint: {enabled: true, mode: Auto, identity: {model: m, backendFramework: sglang, dynamoVersion: v, tensorParallelSize: 2, pipelineParallelSize: 3, dtype: float16, maxModelLen: 4096, extraParameters: {a: b}}}}`,
		},
		"checkpoint off with an empty reference": {
			spec: `{checkpoint: {enabled: false, mode: Auto, checkpointRef: ""}}`,
		},
	}
}

// componentRefused are component specs that are refused, with fields relative to the component.
func componentRefused() map[string]refused {
	return map[string]refused{
		"replicas below zero":               {spec: `{replicas: -1}`, field: "replicas", says: "greater than or equal to 0"},
		"replicas as text":                  {spec: `{replicas: "1"}`, field: "replicas"},
		"replicas as a fraction":            {spec: `{replicas: 1.5}`, field: "replicas"},
		"replicas beyond 32 bits":           {spec: `{replicas: 3000000000}`, field: "replicas"},
		"one node":                          {spec: `{multinode: {nodeCount: 1}}`, field: "multinode.nodeCount", says: "greater than or equal to 2"},
		"zero nodes":                        {spec: `{multinode: {nodeCount: 0}}`, field: "multinode.nodeCount"},
		"CPU limit without quotes":          {spec: `{resources: {limits: {cpu: 1}}}`, field: "resources.limits.cpu"},
		"GPU limit without quotes":          {spec: `{resources: {limits: {gpu: 1}}}`, field: "resources.limits.gpu"},
		"memory request without quotes":     {spec: `{resources: {requests: {memory: 1}}}`, field: "resources.requests.memory"},
		"custom resource without quotes":    {spec: `{resources: {limits: {custom: {a: 1}}}}`, field: "resources.limits.custom.a"},
		"claim without a name":              {spec: `{resources: {claims: [{request: a}]}}`, field: "resources.claims[0].name"},
		"model reference without a name":    {spec: `{modelRef: {revision: r}}`, field: "modelRef.name"},
		"mount without a name":              {spec: `{volumeMounts: [{mountPoint: /a}]}`, field: "volumeMounts[0].name"},
		"variable without a name":           {spec: `{envs: [{value: a}]}`, field: "envs[0].name"},
		"shared memory of no quantity":      {spec: `{sharedMemory: {size: large}}`, field: "sharedMemory.size"},
		"label as a number":                 {spec: `{labels: {a: 1}}`, field: "labels.a"},
		"switch as text":                    {spec: `{globalDynamoNamespace: "true"}`, field: "globalDynamoNamespace"},
		"autoscaling metric without a type": {spec: `{autoscaling: {metrics: [{}]}}`, field: "autoscaling.metrics[0].type"},
		"unknown member":                    {spec: `{replica: 1}`, field: "replica"},
		"unknown member of a resource":      {spec: `{resources: {limits: {gpus: "1"}}}`, field: "resources.limits.gpus"},
		"unknown member of the overlay":     {spec: `{extraPodSpec: {container: {}}}`, field: "extraPodSpec.container"},
		"unknown member of the container":   {spec: `{extraPodSpec: {mainContainer: {img: a}}}`, field: "extraPodSpec.mainContainer.img"},
		"further container without a name":  {spec: `{extraPodSpec: {containers: [{image: a}]}}`, field: "extraPodSpec.containers[0].name"},
		"init container without a name":     {spec: `{extraPodSpec: {initContainers: [{image: a}]}}`, field: "extraPodSpec.initContainers[0].name"},
		"port without a number":             {spec: `{extraPodSpec: {mainContainer: {ports: [{name: a}]}}}`, field: "extraPodSpec.mainContainer.ports[0].containerPort"},
		"picker ConfigMap without a key":    {spec: `{eppConfig: {configMapRef: {name: nm}}}`, field: "eppConfig.configMapRef.key"},
		"picker without plugins":            {spec: `{eppConfig: {config: {schedulingProfiles: []}}}`, field: "eppConfig.config.plugins"},
		"picker without profiles":           {spec: `{eppConfig: {config: {plugins: []}}}`, field: "eppConfig.config.schedulingProfiles"},
		"picker as text":                    {spec: `{eppConfig: {config: text}}`, field: "eppConfig.config"},
		"plugin without a type":             {spec: `{eppConfig: {config: {plugins: [{name: nm}], schedulingProfiles: []}}}`, field: "eppConfig.config.plugins[0].type"},
		"profile without a name":            {spec: `{eppConfig: {config: {plugins: [], schedulingProfiles: [{plugins: []}]}}}`, field: "eppConfig.config.schedulingProfiles[0].name"},
		"profile without plugins":           {spec: `{eppConfig: {config: {plugins: [], schedulingProfiles: [{name: nm}]}}}`, field: "eppConfig.config.schedulingProfiles[0].plugins"},
		"profile plugin without reference":  {spec: `{eppConfig: {config: {plugins: [], schedulingProfiles: [{name: nm, plugins: [{weight: 1}]}]}}}`, field: "eppConfig.config.schedulingProfiles[0].plugins[0].pluginRef"},
		"weight as text":                    {spec: `{eppConfig: {config: {plugins: [], schedulingProfiles: [{name: nm, plugins: [{pluginRef: r, weight: a}]}]}}}`, field: "eppConfig.config.schedulingProfiles[0].plugins[0].weight"},
		"threshold as text":                 {spec: `{eppConfig: {config: {saturationDetector: {kvCacheUtilThreshold: high}, plugins: [], schedulingProfiles: []}}}`, field: "eppConfig.config.saturationDetector.kvCacheUtilThreshold"},
	}
}

// ruleRefused are component specs that a rule refuses, with fields relative to the component.
func ruleRefused() map[string]refused {
	const picker = `componentType: epp, eppConfig: {configMapRef: {name: m, key: k}}`
	return map[string]refused{
		"ingress without a host":           {spec: `{ingress: {enabled: true}}`, field: "ingress.host", says: "an enabled ingress needs a host"},
		"ingress with an empty host":       {spec: `{ingress: {enabled: true, host: ""}}`, field: "ingress.host", says: "an enabled ingress needs a host"},
		"mount without a place":            {spec: `{volumeMounts: [{name: a}]}`, field: "volumeMounts[0].mountPoint", says: "say where to mount the claim"},
		"mount with an empty place":        {spec: `{volumeMounts: [{name: a, mountPoint: ""}]}`, field: "volumeMounts[0].mountPoint", says: "say where to mount the claim"},
		"shared memory without a size":     {spec: `{sharedMemory: {}}`, field: "sharedMemory.size", says: "give a size, or set disabled"},
		"picker on several nodes":          {spec: `{` + picker + `, multinode: {}}`, field: "multinode", says: "an endpoint picker runs on one node"},
		"picker of two replicas":           {spec: `{` + picker + `, replicas: 2}`, field: "replicas", says: "exactly one replica"},
		"picker of no replicas":            {spec: `{` + picker + `, replicas: 0}`, field: "replicas", says: "exactly one replica"},
		"picker without configuration":     {spec: `{componentType: epp}`, field: "eppConfig", says: "needs a configuration"},
		"picker with an empty one":         {spec: `{componentType: epp, eppConfig: {}}`, field: "eppConfig", says: "needs a configuration"},
		"picker with two":                  {spec: `{componentType: epp, eppConfig: {configMapRef: {name: m, key: k}, config: {plugins: [], schedulingProfiles: []}}}`, field: "eppConfig", says: "not both"},
		"picker with a nameless ConfigMap": {spec: `{componentType: epp, eppConfig: {configMapRef: {key: k}}}`, field: "eppConfig", says: "name the ConfigMap"},
	}
}

// checkpointRefused are checkpoint settings that are refused, with fields relative to the component.
func checkpointRefused() map[string]refused {
	const rule = "an enabled checkpoint needs checkpointRef, or identity with model and backendFramework"
	return map[string]refused{
		"checkpoint on without reference and identity": {spec: `{checkpoint: {enabled: true}}`, field: "checkpoint", says: rule},
		"checkpoint on with an empty reference":        {spec: `{checkpoint: {enabled: true, checkpointRef: ""}}`, field: "checkpoint", says: rule},
		"checkpoint mode in lower case":                {spec: `{checkpoint: {mode: auto}}`, field: "checkpoint.mode", says: `supported values: "Auto", "Manual"`},
		"identity without a model":                     {spec: `{checkpoint: {identity: {backendFramework: vllm}}}`, field: "checkpoint.identity.model"},
		"identity without an engine":                   {spec: `{checkpoint: {identity: {model: m}}}`, field: "checkpoint.identity.backendFramework"},
		"identity of an unknown engine":                {spec: `{checkpoint: {identity: {model: m, backendFramework: tgi}}}`, field: "checkpoint.identity.backendFramework", says: `supported values: "vllm", "sglang", "trtllm"`},
		"no tensor parallelism":                        {spec: `{checkpoint: {identity: {model: m, backendFramework: vllm, tensorParallelSize: 0}}}`, field: "checkpoint.identity.tensorParallelSize"},
		"no pipeline parallelism":                      {spec: `{checkpoint: {identity: {model: m, backendFramework: vllm, pipelineParallelSize: 0}}}`, field: "checkpoint.identity.pipelineParallelSize"},
		"no context":                                   {spec: `{checkpoint: {identity: {model: m, backendFramework: vllm, maxModelLen: 0}}}`, field: "checkpoint.identity.maxModelLen"},
		"extra parameter as a number":                  {spec: `{checkpoint: {identity: {model: m, backendFramework: vllm, extraParameters: {a: 1}}}}`, field: "checkpoint.identity.extraParameters.a"},
	}
}

// merged joins tables of cases.
func merged[C any](tables ...map[string]C) map[string]C {
	all := map[string]C{}
	for _, table := range tables {
		maps.Copy(all, table)
	}
	return all
}

func TestComponentSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	checkAccepted(t, "DynamoComponentDeployment", merged(componentAccepted(), overlayAccepted(), pickerAccepted(), checkpointAccepted(), map[string]accepted{
		"engine sglang": {spec: `{backendFramework: sglang}`},
		"engine vllm":   {spec: `{backendFramework: vllm}`},
		"engine trtllm": {spec: `{backendFramework: trtllm}`},
	}))
	refusals := map[string]refused{
		"unknown engine":    {spec: `{backendFramework: tgi}`, field: "spec.backendFramework", says: `supported values: "sglang", "vllm", "trtllm"`},
		"empty engine":      {spec: `{backendFramework: ""}`, field: "spec.backendFramework"},
		"no shared wrapper": {spec: `{sharedSpec: {replicas: 1}}`, field: "spec.sharedSpec"},
	}
	for name, tc := range merged(componentRefused(), ruleRefused(), checkpointRefused()) {
		tc.field = "spec." + tc.field
		refusals[name] = tc
	}
	checkRefused(t, "DynamoComponentDeployment", refusals)
}

func TestTheEngineOfAComponentCannotBeChanged(t *testing.T) {
	t.Parallel()
	const rule = "backendFramework cannot be changed"
	checkChanges(t, "DynamoComponentDeployment", map[string]changed{
		"another engine":         {`{backendFramework: vllm}`, `{backendFramework: sglang}`, rule},
		"an engine comes":        {`{}`, `{backendFramework: sglang}`, rule},
		"an engine goes":         {`{backendFramework: vllm}`, `{}`, rule},
		"something else changes": {`{backendFramework: vllm}`, `{backendFramework: vllm, multinode: {}}`, ""},
	})
}

func TestGraphServicesFollowTheComponentSchema(t *testing.T) {
	t.Parallel()
	cases := map[string]accepted{}
	for name, tc := range merged(componentAccepted(), overlayAccepted(), pickerAccepted(), checkpointAccepted()) {
		tc.spec = "services: {Web: " + tc.spec + "}"
		if tc.want != "" {
			tc.want = "services: {Web: " + tc.want + "}"
		}
		cases[name] = tc
	}
	checkAccepted(t, "DynamoGraphDeployment", cases)
	refusals := map[string]refused{
		"engine inside a service": {spec: `services: {Web: {backendFramework: vllm}}`, field: "spec.services.Web.backendFramework"},
	}
	for name, tc := range merged(componentRefused(), ruleRefused(), checkpointRefused()) {
		tc.spec = "services: {Web: " + tc.spec + "}"
		tc.field = "spec.services.Web." + tc.field
		refusals[name] = tc
	}
	checkRefused(t, "DynamoGraphDeployment", refusals)
}

// replicaRefusals are the limits of a replica status that stands under a path.
func replicaRefusals(path, format string) map[string]refused {
	const valid = `componentKind: Deployment, componentName: nm, replicas: 1, updatedReplicas: 1`
	status := func(old, spoiled string) string {
		return strings.Replace(format, "REPLICAS", "{"+strings.Replace(valid, old, spoiled, 1)+"}", 1)
	}
	return map[string]refused{
		"unknown workload kind":      {spec: status("componentKind: Deployment", "componentKind: StatefulSet"), field: path + ".componentKind", says: `supported values: "PodClique", "PodCliqueScalingGroup", "Deployment", "LeaderWorkerSet"`},
		"empty workload kind":        {spec: status("componentKind: Deployment", `componentKind: ""`), field: path + ".componentKind"},
		"no workload kind":           {spec: status("componentKind: Deployment, ", ""), field: path + ".componentKind"},
		"no workload name":           {spec: status("componentName: nm, ", ""), field: path + ".componentName"},
		"no replicas":                {spec: status(" replicas: 1,", ""), field: path + ".replicas"},
		"no updated replicas":        {spec: status(", updatedReplicas: 1", ""), field: path + ".updatedReplicas"},
		"replicas below zero":        {spec: status(" replicas: 1", " replicas: -1"), field: path + ".replicas"},
		"updated below zero":         {spec: status("updatedReplicas: 1", "updatedReplicas: -1"), field: path + ".updatedReplicas"},
		"ready below zero":           {spec: status("updatedReplicas: 1", "updatedReplicas: 1, readyReplicas: -1"), field: path + ".readyReplicas"},
		"available below zero":       {spec: status("updatedReplicas: 1", "updatedReplicas: 1, availableReplicas: -1"), field: path + ".availableReplicas"},
		"unknown member of replicas": {spec: status("updatedReplicas: 1", "updatedReplicas: 1, desired: 1"), field: path + ".desired"},
	}
}

func TestComponentStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	cases := map[string]accepted{
		"an empty list of conditions": {spec: `{conditions: []}`},
		"everything filled":           {spec: `{observedGeneration: 1, podSelector: {a: b}, conditions: [{` + condition + `}], service: {componentKind: Deployment, componentName: nm, replicas: 0, updatedReplicas: 0, readyReplicas: 0, availableReplicas: 0}}`},
	}
	for _, kind := range []string{"PodClique", "PodCliqueScalingGroup", "Deployment", "LeaderWorkerSet"} {
		cases["workload kind "+kind] = accepted{spec: `{conditions: [], service: {componentKind: ` + kind + `, componentName: nm, replicas: 1, updatedReplicas: 1}}`}
	}
	checkStatusAccepted(t, "DynamoComponentDeployment", `{}`, cases)
	checkStatusRefused(t, "DynamoComponentDeployment", `{}`, merged(conditionRefusals("observedGeneration: 1"),
		replicaRefusals("status.service", "{conditions: [], service: REPLICAS}"), map[string]refused{
			"no conditions":   {spec: `{observedGeneration: 1}`, field: "status.conditions"},
			"null conditions": {spec: `{conditions: null}`, field: "status.conditions"},
		}))
}
