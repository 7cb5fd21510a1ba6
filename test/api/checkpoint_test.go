// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	validTemplate   = `podTemplateSpec: {spec: {containers: [{name: main, image: "engine:1"}]}}`
	validCheckpoint = `{identity: {model: m, backendFramework: vllm}, job: {` + validTemplate + `}}`
)

func TestCheckpointSpecFollowsItsSchema(t *testing.T) {
	t.Parallel()
	const jobDefaults = `activeDeadlineSeconds: 3600, backoffLimit: 3, ttlSecondsAfterFinished: 300`
	const sizeDefaults = `tensorParallelSize: 1, pipelineParallelSize: 1`
	cases := map[string]accepted{
		"job and sizes have defaults": {
			spec: validCheckpoint,
			want: `{identity: {model: m, backendFramework: vllm, ` + sizeDefaults + `}, job: {` + validTemplate + `, ` + jobDefaults + `}}`,
		},
		"everything given": {
			spec: `{identity: {model: m, backendFramework: vllm, dynamoVersion: v, tensorParallelSize: 2, pipelineParallelSize: 2, dtype: d, maxModelLen: 1, extraParameters: {a: b}}, job: {` + validTemplate + `, activeDeadlineSeconds: 0, backoffLimit: 0, ttlSecondsAfterFinished: 0}}`,
		},
		"metadata of the pod": {
			spec: `{identity: {model: m, backendFramework: vllm, ` + sizeDefaults + `}, job: {podTemplateSpec: {metadata: {labels: {a: b}, annotations: {c: d}}, spec: {containers: [{name: main}]}}, ` + jobDefaults + `}}`,
		},
	}
	for _, engine := range []string{"vllm", "sglang", "trtllm"} {
		cases["engine "+engine] = accepted{
			spec: `{identity: {model: m, backendFramework: ` + engine + `, ` + sizeDefaults + `}, job: {` + validTemplate + `, ` + jobDefaults + `}}`,
		}
	}
	checkAccepted(t, "DynamoCheckpoint", cases)

	identity := func(members string) string { return `{identity: {` + members + `}, job: {` + validTemplate + `}}` }
	job := func(members string) string {
		return `{identity: {model: m, backendFramework: vllm}, job: {` + members + `}}`
	}
	checkRefused(t, "DynamoCheckpoint", map[string]refused{
		"no identity":                 {spec: `{job: {` + validTemplate + `}}`, field: "spec.identity"},
		"no job":                      {spec: `{identity: {model: m, backendFramework: vllm}}`, field: "spec.job"},
		"no model":                    {spec: identity(`backendFramework: vllm`), field: "spec.identity.model"},
		"no engine":                   {spec: identity(`model: m`), field: "spec.identity.backendFramework"},
		"unknown engine":              {spec: identity(`model: m, backendFramework: a`), field: "spec.identity.backendFramework", says: `supported values: "vllm", "sglang", "trtllm"`},
		"no tensor parallelism":       {spec: identity(`model: m, backendFramework: vllm, tensorParallelSize: 0`), field: "spec.identity.tensorParallelSize"},
		"no pipeline parallelism":     {spec: identity(`model: m, backendFramework: vllm, pipelineParallelSize: 0`), field: "spec.identity.pipelineParallelSize"},
		"no context":                  {spec: identity(`model: m, backendFramework: vllm, maxModelLen: 0`), field: "spec.identity.maxModelLen"},
		"unknown member of identity":  {spec: identity(`model: m, backendFramework: vllm, quantization: q`), field: "spec.identity.quantization"},
		"no pod template":             {spec: job(`backoffLimit: 1`), field: "spec.job.podTemplateSpec"},
		"pod without containers":      {spec: job(`podTemplateSpec: {spec: {}}`), field: "spec.job.podTemplateSpec.spec.containers"},
		"container without a name":    {spec: job(`podTemplateSpec: {spec: {containers: [{}]}}`), field: "spec.job.podTemplateSpec.spec.containers[0].name"},
		"deadline as text":            {spec: job(validTemplate + `, activeDeadlineSeconds: 1h`), field: "spec.job.activeDeadlineSeconds"},
		"unknown member of the job":   {spec: job(validTemplate + `, parallelism: 1`), field: "spec.job.parallelism"},
		"unknown pod metadata member": {spec: job(`podTemplateSpec: {metadata: {label: {a: b}}, spec: {containers: [{name: main}]}}`), field: "spec.job.podTemplateSpec.metadata.label"},
	})
}

// update changes a stored object and returns the answer of the server.
func update(t testing.TB, stored *unstructured.Unstructured, change func(spec map[string]any)) error {
	t.Helper()
	spec, _, err := unstructured.NestedMap(stored.Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	change(spec)
	stored.Object["spec"] = spec
	return harness.Client(t).Update(t.Context(), stored)
}

func TestCheckpointIdentityCannotBeChanged(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	set := func(key string, value any) func(map[string]any) {
		return func(spec map[string]any) { spec["identity"].(map[string]any)[key] = value }
	}
	for name, change := range map[string]func(map[string]any){
		"other model":         set("model", "other"),
		"other engine":        set("backendFramework", "sglang"),
		"other parallelism":   set("tensorParallelSize", int64(2)),
		"version added":       set("dynamoVersion", "1"),
		"an empty map added":  set("extraParameters", map[string]any{}),
		"an extra parameter":  set("extraParameters", map[string]any{"a": "b"}),
		"length of a context": set("maxModelLen", int64(1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := update(t, mustCreate(t, namespace, "DynamoCheckpoint", validCheckpoint), change)
			if err == nil || !strings.Contains(err.Error(), "spec.identity cannot be changed") {
				t.Errorf("got %v, want a refusal that names spec.identity", err)
			}
		})
	}
}

func TestCheckpointAcceptsEveryOtherChange(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	for name, change := range map[string]func(map[string]any){
		"nothing":          func(map[string]any) {},
		"size as defaults": func(spec map[string]any) { delete(spec["identity"].(map[string]any), "tensorParallelSize") },
		"other job":        func(spec map[string]any) { spec["job"].(map[string]any)["backoffLimit"] = int64(7) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := update(t, mustCreate(t, namespace, "DynamoCheckpoint", validCheckpoint), change); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCheckpointStatusFollowsItsSchema(t *testing.T) {
	t.Parallel()
	cases := map[string]accepted{
		"nothing":           {spec: `{}`},
		"everything filled": {spec: `{phase: Ready, identityHash: h, location: /c/h, storageType: pvc, jobName: j, createdAt: "2026-01-01T00:00:00Z", message: m, fingerprint: f, observedGeneration: 1, conditions: [{` + condition + `}]}`},
	}
	for _, phase := range []string{"Pending", "Creating", "Ready", "Failed"} {
		cases["phase "+phase] = accepted{spec: `{phase: ` + phase + `}`}
	}
	for _, storage := range []string{"pvc", "s3", "oci"} {
		cases["storage "+storage] = accepted{spec: `{storageType: ` + storage + `}`}
	}
	checkStatusAccepted(t, "DynamoCheckpoint", validCheckpoint, cases)
	checkStatusRefused(t, "DynamoCheckpoint", validCheckpoint, merged(conditionRefusals("phase: Pending"), map[string]refused{
		"unknown phase":   {spec: `{phase: Running}`, field: "status.phase", says: `supported values: "Pending", "Creating", "Ready", "Failed"`},
		"empty phase":     {spec: `{phase: ""}`, field: "status.phase"},
		"unknown storage": {spec: `{storageType: nfs}`, field: "status.storageType", says: `supported values: "pvc", "s3", "oci"`},
		"malformed time":  {spec: `{createdAt: today}`, field: "status.createdAt"},
		"unknown member":  {spec: `{state: a}`, field: "status.state"},
	}))
}

func TestCheckpointPodLabelsReachTheStoredObject(t *testing.T) {
	t.Parallel()
	namespace := harness.Namespace(t)
	stored := mustCreate(t, namespace, "DynamoCheckpoint", `{identity: {model: m, backendFramework: vllm}, job: {podTemplateSpec: {metadata: {labels: {nvidia.com/dynamo-component: decode}}, spec: {containers: [{name: main}]}}}}`)
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(stored.GroupVersionKind())
	if err := harness.Client(t).Get(t.Context(), client.ObjectKeyFromObject(stored), read); err != nil {
		t.Fatal(err)
	}
	labels, _, err := unstructured.NestedStringMap(read.Object, "spec", "job", "podTemplateSpec", "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"nvidia.com/dynamo-component": "decode"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}
