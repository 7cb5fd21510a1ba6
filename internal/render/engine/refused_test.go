// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

type refusal struct {
	multi multi
	want  []string
}

// refusals are components that cannot be wired, with what their user is told.
func refusals() map[string]refusal {
	const (
		args     = `spec.services[Decode].extraPodSpec.mainContainer.args: `
		command  = `spec.services[Decode].extraPodSpec.mainContainer.command: `
		limit    = `spec.services[Decode].resources.limits.gpu: `
		noGPUs   = limit + `Required value: say how many GPUs each node has: resources.limits.gpu`
		noSize   = `: the nodes would run unconnected: set --tensor-parallel-size or --data-parallel-size, or remove multinode`
		lonely   = `: the nodes cannot be connected through this command: start the engine as python3 -m dynamo.`
		ownGrove = `, or wire it yourself by using GROVE_PCSG_NAME and GROVE_PCSG_INDEX and GROVE_HEADLESS_SERVICE and GROVE_PCLQ_POD_INDEX in the command`
	)
	gpus := func(limits, requests string) *v1alpha1.Resources {
		return &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: limits}, Requests: &v1alpha1.ResourceItem{GPU: requests}}
	}
	claims := corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}
	start := func(framework, flags string) []string {
		return []string{strings.TrimSpace("python3 -m dynamo." + framework + " " + flags)}
	}
	return map[string]refusal{
		"sglang without GPUs":       {multi{framework: "sglang", args: start("sglang", "")}, []string{noGPUs}},
		"vllm without GPUs":         {multi{framework: "vllm", args: start("vllm", "-tp 16")}, []string{noGPUs}},
		"trtllm without GPUs":       {multi{framework: "trtllm", args: start("trtllm", "")}, []string{noGPUs}},
		"no GPUs in so many":        {multi{framework: "trtllm", resources: gpus("0", ""), args: start("trtllm", "")}, []string{noGPUs}},
		"broken limit":              {multi{framework: "sglang", resources: gpus("500m", ""), args: start("sglang", "")}, []string{limit + `Invalid value: "500m": must be a whole number: each node has so many GPUs`}},
		"broken request":            {multi{framework: "vllm", resources: gpus("", "many"), args: start("vllm", "-tp 16")}, []string{`spec.services[Decode].resources.requests.gpu: Invalid value: "many": must be a whole number: each node has so many GPUs`}},
		"negative":                  {multi{framework: "trtllm", resources: gpus("-1", ""), args: start("trtllm", "")}, []string{limit + `Invalid value: "-1": must be a whole number: each node has so many GPUs`}},
		"no parallel size":          {multi{framework: "vllm", resources: eightGPUs, args: start("vllm", "")}, []string{args + `Invalid value: "/bin/sh -c python3 -m dynamo.vllm"` + noSize}},
		"a size of another program": {multi{framework: "vllm", resources: eightGPUs, args: []string{"cp -dp a b; python3 -m dynamo.vllm"}}, []string{args + `Invalid value: "/bin/sh -c cp -dp a b; python3 -m dynamo.vllm"` + noSize}},
		"neither size nor GPUs":     {multi{framework: "vllm", command: start("vllm", "")}, []string{command + `Invalid value: "python3 -m dynamo.vllm"` + noSize, noGPUs}},
		"a size nobody knows":       {multi{framework: "vllm", resources: eightGPUs, args: start("vllm", "-tp $TP")}, []string{args + `Invalid value: "/bin/sh -c python3 -m dynamo.vllm -tp $TP": the nodes would run unconnected: write the parallel sizes as numbers`}},
		"too large":                 {multi{framework: "vllm", resources: eightGPUs, args: start("vllm", "-tp 8 -pp 3")}, []string{args + `Invalid value: 24: tensor and pipeline parallel size take 24 GPUs: 2 nodes with 8 each have 16`}},
		"ranks left over":           {multi{framework: "vllm", resources: eightGPUs, args: start("vllm", "-tp 4 -dp 3")}, []string{args + `Invalid value: 3: --data-parallel-size must be 4: 2 nodes run 2 ranks each`}},
		"claims and no number":      {multi{framework: "trtllm", container: claims, args: start("trtllm", "")}, []string{noGPUs}},
		"claims and odd ranks":      {multi{framework: "trtllm", container: claims, args: start("trtllm", "--tp_size 3")}, []string{args + `Invalid value: 3: the parallel sizes make 3 ranks, which 2 nodes cannot share evenly: change them, or say how many GPUs each node has: resources.limits.gpu`}},
		"claims and odd sizes":      {multi{framework: "vllm", container: claims, args: start("vllm", "-tp 3 -dp 3")}, []string{args + `Invalid value: 9: the parallel sizes make 9 ranks, which 2 nodes cannot share evenly: change them, or say how many GPUs each node has: resources.limits.gpu`}},
		"a script file":             {multi{framework: "sglang", resources: eightGPUs, args: []string{"/start.sh"}}, []string{args + `Invalid value: "/bin/sh -c /start.sh"` + lonely + `sglang` + ownGrove}},
		"a program":                 {multi{framework: "sglang", resources: eightGPUs, command: []string{"/start"}}, []string{command + `Invalid value: "/start"` + lonely + `sglang` + ownGrove}},
		"nothing to start":          {multi{framework: "sglang", resources: eightGPUs}, []string{args + `Invalid value: "/bin/sh -c"` + lonely + `sglang` + ownGrove}},
		"nothing to launch":         {multi{framework: "trtllm", resources: eightGPUs}, []string{args + `Invalid value: "/bin/sh -c"` + lonely + `trtllm` + ownGrove}},
		"a script for Ray":          {multi{framework: "vllm", resources: eightGPUs, args: []string{"/start.sh -tp 16"}}, []string{args + `Invalid value: "/bin/sh -c /start.sh -tp 16"` + lonely + `vllm` + ownGrove}},
		"ranks of a script":         {multi{framework: "vllm", resources: eightGPUs, args: []string{"/start.sh -dp 16"}}, []string{args + `Invalid value: "/bin/sh -c /start.sh -dp 16"` + lonely + `vllm` + ownGrove}},
		"a substitution":            {multi{framework: "sglang", resources: eightGPUs, args: []string{"echo $(python3 -m dynamo.sglang)"}}, []string{args + `Invalid value: "/bin/sh -c echo $(python3 -m dynamo.sglang)"` + lonely + `sglang` + ownGrove}},
		"a long command": {multi{framework: "sglang", resources: eightGPUs, command: []string{"/start", strings.Repeat("é", 100)}},
			[]string{command + `Invalid value: "/start ` + strings.Repeat("é", 73) + `..."` + lonely + `sglang` + ownGrove}},
		"a constant behind ours": {multi{framework: "sglang", resources: eightGPUs, args: start("sglang", "--nnodes 4")},
			[]string{args + `Invalid value: "4": remove --nnodes: the nodes of a group get it from the operator, each with its own value`}},
		"another back end behind ours": {multi{framework: "vllm", resources: eightGPUs, args: start("vllm", "-tp 16 --distributed-executor-backend mp")},
			[]string{args + `Invalid value: "mp": remove --distributed-executor-backend: the nodes of a group get it from the operator, each with its own value`}},
	}
}

func TestWhatCannotBeWiredIsRefusedWithAWayOut(t *testing.T) {
	t.Parallel()
	for name, tc := range refusals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range tc.multi.wire(Grove, Leader).errs {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	got := multi{framework: "sglang", resources: eightGPUs, args: []string{"/start.sh"}}.wire(LeaderWorkerSet, Worker).refusals()
	if want := "using LWS_LEADER_ADDRESS and LWS_WORKER_INDEX in the command"; !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}

func TestGPUsAreCountedWhereverTheyStand(t *testing.T) {
	t.Parallel()
	list := func(name, amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
	}
	const gpu, other = "nvidia.com/gpu", "gpu.intel.com/xe"
	for name, tc := range map[string]struct {
		resources *v1alpha1.Resources
		container corev1.ResourceRequirements
		flags     string
		want      string
	}{
		"limit": {resources: &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "4"}}, want: "8"},
		"limit before request": {resources: &v1alpha1.Resources{Limits: &v1alpha1.ResourceItem{GPU: "4"}, Requests: &v1alpha1.ResourceItem{GPU: "2"}},
			container: corev1.ResourceRequirements{Limits: list(gpu, "6")}, want: "8"},
		"request":            {resources: &v1alpha1.Resources{Requests: &v1alpha1.ResourceItem{GPU: "4000m"}}, want: "8"},
		"container's limit":  {container: corev1.ResourceRequirements{Limits: list(gpu, "4"), Requests: list(gpu, "2")}, want: "8"},
		"container requests": {container: corev1.ResourceRequirements{Requests: list(gpu, "4")}, want: "8"},
		"another kind": {resources: &v1alpha1.Resources{Requests: &v1alpha1.ResourceItem{GPUType: other}},
			container: corev1.ResourceRequirements{Limits: list(other, "4")}, want: "8"},
		"claims":              {container: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "a"}}}, flags: "--tensor-parallel-size=4 --pp_size 2", want: "8"},
		"number beats claims": {resources: eightGPUs, container: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "a"}}}, flags: "--tp-size 4", want: "16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := multi{framework: "trtllm", resources: tc.resources, container: tc.container, args: []string{"python3 -m dynamo.trtllm " + tc.flags}}.wire(Grove, Leader)
			if want := " -n " + tc.want + " -H "; !strings.Contains(got.line(), want) {
				t.Errorf("want %q in:\n%s", want, got.line())
			}
		})
	}
	for name, container := range map[string]corev1.ResourceRequirements{
		"claims": {Claims: []corev1.ResourceClaim{{Name: "a"}}}, "other devices": {Limits: list("nvidia.com/mig-3g.40gb", "1")},
	} {
		got := multi{framework: "sglang", container: container, args: []string{"python3 -m dynamo.sglang"}}.wire(Grove, Leader)
		if !strings.Contains(got.line(), " --nnodes 2 ") || got.errs != nil {
			t.Errorf("%s: sglang counts its devices itself, got:\n%s", name, got.line())
		}
	}
	got := multi{framework: "sglang", container: corev1.ResourceRequirements{Limits: list("memory", "1Gi")}, args: []string{"python3 -m dynamo.sglang"}}.wire(Grove, Leader)
	if got.errs == nil {
		t.Error("memory was taken for a device")
	}
}

func TestParallelSizesAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	env := []corev1.EnvVar{{Name: "SIZE", Value: "16"}}
	const ray, ranks, alone = "ray start", "--data-parallel-size-local", "alone"
	for _, tc := range []struct {
		command, args []string
		want          string
	}{
		{nil, []string{"python3 -m dynamo.vllm --tensor-parallel-size 16"}, ray},
		{nil, []string{"python3 -m dynamo.vllm --tensor-parallel-size=16"}, ray},
		{nil, []string{"python3 -m dynamo.vllm --tensor-parallel-size='16'"}, ray},
		{nil, []string{`python3 -m dynamo.vllm --tensor_parallel_size "16"; sync`}, ray},
		{nil, []string{"python3 -m dynamo.vllm -tp 16; sync"}, ray},
		{nil, []string{"(python3 -m dynamo.vllm -tp=16)"}, ray},
		{nil, []string{"python3 -m dynamo.vllm -tp $(SIZE)"}, ray},
		{nil, []string{"python3 -m dynamo.vllm -tp ${SIZE}"}, ray},
		{nil, []string{"python3 -m dynamo.vllm -tp $SIZE"}, ray},
		{nil, []string{"python3 -m dynamo.vllm -tp $OTHER --tensor-parallel-size 16"}, ray}, // the first that can be read
		{nil, []string{"python3 -m dynamo.vllm -tp 8 -pp 2"}, ray},
		{nil, []string{"python3 -m dynamo.vllm --tensor-parallel-size 8 --pipeline_parallel_size=2"}, ray},
		{[]string{"python3", "-m", "dynamo.vllm", "-tp", "16"}, nil, ray},
		{[]string{"python3", "-m", "dynamo.vllm", "-tp=16"}, []string{"-x"}, ray},
		{[]string{"bash", "-c", "python3 -m dynamo.vllm -tp 16"}, nil, ray},
		{[]string{"python3", "-m", "dynamo.vllm"}, []string{"-dp", "16"}, ranks},
		{[]string{"python3", "-m", "dynamo.vllm", "-dp=4", "--tensor_parallel_size", "4"}, nil, ranks},
		{nil, []string{"python3 -m dynamo.vllm --data-parallel-size=4 -tp 4"}, ranks},
		{nil, []string{"python3 -m dynamo.vllm -tp $OTHER -dp 16"}, ranks}, // as if it were 1
		{nil, []string{"python3 -m dynamo.vllm -tp 4 -dp 2"}, alone},
		{nil, []string{"cp -dp a b && python3 -m dynamo.vllm -tp 4"}, alone}, // not of the engine
		{nil, []string{"python3 -m dynamo.vllm -tp 8 -tp 16"}, alone},
	} {
		m := multi{framework: "vllm", resources: eightGPUs, env: env, command: tc.command, args: tc.args}
		got := m.wire(Grove, Leader).line()
		if tc.want == alone {
			if diff := cmp.Diff(words(shell, tc.args), got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tc.args, diff)
			}
		} else if !strings.Contains(got, tc.want) {
			t.Errorf("want %q in:\n%s", tc.want, got)
		}
	}
}

func TestClaimsSpreadTheRanksOfVLLM(t *testing.T) {
	t.Parallel()
	claims := corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}
	for flags, want := range map[string]string{
		"-tp 16":       "ray start --head",
		"-tp 2 -dp 8":  "--data-parallel-size-local 4 ",
		"-tp 1 -dp=16": "--data-parallel-size-local 8 ",
	} {
		got := multi{framework: "vllm", container: claims, args: []string{"python3 -m dynamo.vllm " + flags}}.wire(Grove, Leader)
		if !strings.Contains(got.line(), want) || got.errs != nil {
			t.Errorf("%s: want %q in:\n%s", flags, want, got.line())
		}
	}
}
