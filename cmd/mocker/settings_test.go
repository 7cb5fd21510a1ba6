// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
)

func TestFlagsAreReadAsEnginesReadThem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args, ignored []string
		want          choices
	}{
		"nothing":             {want: choices{}},
		"two words":           {args: []string{"--model", "x"}, want: choices{settingModel: {"x"}}},
		"one word":            {args: []string{"--model=x=y"}, want: choices{settingModel: {"x=y"}}},
		"underscores":         {args: []string{"--model_path", "x"}, want: choices{settingModel: {"x"}}},
		"a switch":            {args: []string{"--is-prefill-worker", "--model", "x"}, want: choices{settingPrefill: {"true"}, settingModel: {"x"}}},
		"a negative number":   {args: []string{"--chunked-prefill-size", "-1"}, want: choices{settingBatch: {"-1"}}},
		"unknown with value":  {args: []string{"--tensor-parallel-size", "2", "--model", "x"}, ignored: []string{"--tensor-parallel-size", "2"}, want: choices{settingModel: {"x"}}},
		"unknown and inline":  {args: []string{"--kv-transfer-config={}", "--model=x"}, ignored: []string{"--kv-transfer-config={}"}, want: choices{settingModel: {"x"}}},
		"unknown switch":      {args: []string{"--enforce-eager", "--model", "x"}, ignored: []string{"--enforce-eager"}, want: choices{settingModel: {"x"}}},
		"short":               {args: []string{"-tp", "4", "--model", "x"}, ignored: []string{"-tp", "4"}, want: choices{settingModel: {"x"}}},
		"a word on its own":   {args: []string{"word", "--model", "x"}, ignored: []string{"word"}, want: choices{settingModel: {"x"}}},
		"several times":       {args: []string{"--mock-fault", "a", "--mock-fault", "b"}, want: choices{settingFault: {"a", "b"}}},
		"nothing to follow":   {args: []string{"--model"}, want: choices{settingModel: {""}}},
		"a flag as the value": {args: []string{"--model", "--headless"}, want: choices{settingModel: {""}, settingHeadless: {"true"}}},
	} {
		got, ignored := parseFlags(tc.args, workerFlags())
		if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.ignored, ignored); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// summary is what matters of a worker's options.
type summary struct {
	Model                string
	Role                 mockengine.Role
	Identity             mockengine.Identity
	Limits               mockengine.Limits
	Context, Slots, Wait int
	Startup              time.Duration
	Speedup              float64
	Virtual              bool
	Faults               int
}

func TestAWorkerIsWhatItsFlagsAndItsPodSay(t *testing.T) {
	t.Parallel()
	pod := []string{"POD_NAME=p", "POD_NAMESPACE=ns", "DYN_NAMESPACE=ns-chat"}
	usual := mockengine.Limits{MaxSequences: 256, MaxBatchedTokens: 8192, Blocks: 16384, BlockSize: 64}
	id := func(component string) mockengine.Identity {
		return mockengine.Identity{Instance: "p", Namespace: "ns-chat", Component: component}
	}
	for name, tc := range map[string]struct {
		args, env string
		want      summary
	}{
		"vllm": {"--model Qwen/Q", "DYN_COMPONENT=worker", summary{Model: "Qwen/Q", Role: "aggregated", Identity: id("worker"), Limits: usual}},
		"vllm prefill": {"--model Qwen/Q --is-prefill-worker", "DYN_COMPONENT=worker",
			summary{Model: "Qwen/Q", Role: "prefill", Identity: id("worker"), Limits: usual}},
		"a component that decodes": {"--model Qwen/Q", "DYN_COMPONENT=decode",
			summary{Model: "Qwen/Q", Role: "decode", Identity: id("decode"), Limits: usual}},
		"sglang": {"--model-path=/models/q --served-model-name=Qwen/Q --disaggregation-mode=decode --page-size 16 --max-running-requests 8", "DYN_COMPONENT=decode",
			summary{Model: "Qwen/Q", Role: "decode", Identity: id("decode"), Limits: mockengine.Limits{MaxSequences: 8, MaxBatchedTokens: 8192, Blocks: 65536, BlockSize: 16}}},
		"trtllm": {"--model-path q --served-model-name Q --disaggregation-mode prefill_and_decode --max-num-tokens 512 --max-seq-len 100", "DYN_COMPONENT=decode",
			summary{Model: "Q", Role: "aggregated", Identity: id("decode"), Limits: mockengine.Limits{MaxSequences: 256, MaxBatchedTokens: 512, Blocks: 16384, BlockSize: 64}, Context: 100}},
		"mocker": {"--model-path q --model-name Q --speedup-ratio 10 --num-gpu-blocks-override 99 --startup-time 1.5 --endpoint dyn://a.b.generate", "",
			summary{Model: "Q", Role: "aggregated", Identity: mockengine.Identity{Instance: "p", Namespace: "a", Component: "b"}, Limits: mockengine.Limits{MaxSequences: 256, MaxBatchedTokens: 8192, Blocks: 99, BlockSize: 64}, Startup: 1500 * time.Millisecond, Speedup: 10}},
		"ours by flags": {"--mock-adapter-slots 2 --mock-max-waiting 3 --mock-clock virtual --mock-fault on=load,kind=hang --mock-fault on=list,kind=hang", "",
			summary{Model: defaultModel, Role: "aggregated", Identity: id("aggregated"), Limits: usual, Slots: 2, Wait: 3, Virtual: true, Faults: 2}},
		"ours by variables": {"--mock-adapter-slots 2", `MOCK_ADAPTER_SLOTS=7 MOCK_MAX_WAITING=3 MOCK_CLOCK=virtual MOCK_STARTUP_TIME=1m MOCK_FAULTS=[{"on":"load","kind":"hang"}]`,
			summary{Model: defaultModel, Role: "aggregated", Identity: id("aggregated"), Limits: usual, Slots: 2, Wait: 3, Virtual: true, Faults: 1, Startup: time.Minute}},
	} {
		p := program{environ: append(strings.Fields(tc.env), pod...)}
		c, _ := parseFlags(strings.Fields(tc.args), workerFlags())
		o, err := workerOptions(c.withEnvironment(p.lookup), p.place())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := summary{
			Model: o.Model, Role: o.Role, Identity: o.Identity, Limits: o.Engine.Limits, Context: o.ContextLength, Slots: o.AdapterSlots,
			Wait: o.Engine.MaxWaiting, Startup: o.StartupTime, Speedup: o.Engine.Speedup, Virtual: o.Engine.Clock != nil, Faults: len(o.Faults.List()),
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatAWorkerCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--block-size many":          `block size: "many" is not a whole number`,
		"--speedup-ratio 0":          "speedup",
		"--startup-time soon":        "startup time",
		"--mock-clock sun":           `clock: "sun" is neither wall nor virtual`,
		"--endpoint here":            "dyn://namespace.component.endpoint",
		"--mock-fault on=x,kind=y":   `on: "x" is none of`,
		"--mock-fault on=load,kind=": `kind: "" is none of`,
	} {
		c, _ := parseFlags(strings.Fields(args), workerFlags())
		if _, err := workerOptions(c, place{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestAddressesComeFromFlagsThenVariablesThenDefaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ args, env, want string }{
		"default":   {"", "", ":8000"},
		"variable":  {"", "DYNAMO_PORT=8100", ":8100"},
		"the first": {"", "DYNAMO_PORT=8100 DYN_HTTP_PORT=8200 DYN_HTTP_HOST=127.0.0.1", "127.0.0.1:8200"},
		"flag":      {"--http-port 1 --http-host ::1", "DYN_HTTP_PORT=8200", "[::1]:1"},
		"no port":   {"--http-port 70000", "", ""},
	} {
		p := program{environ: strings.Fields(tc.env)}
		c, _ := parseFlags(strings.Fields(tc.args), frontendFlags())
		got, err := p.address(c, 8000, "DYN_HTTP_HOST", "DYN_HTTP_PORT", "DYNAMO_PORT")
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
