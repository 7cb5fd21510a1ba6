// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const sglangFlags = "--dist-init-addr $LWS_LEADER_ADDRESS:29500 --nnodes 2 --node-rank "

// sglangForm is a way to start SGLang, and what becomes of it on both kinds of nodes.
type sglangForm struct{ command, args, leaderCommand, leaderArgs, workerCommand, workerArgs []string }

// sglangWords are the ways that name the words of the command one by one.
func sglangWords() map[string]sglangForm {
	leader := []string{"--dist-init-addr", "$(LWS_LEADER_ADDRESS):29500", "--nnodes", "2", "--node-rank", "0"}
	join := func(before []string, after ...string) []string { return slices.Concat(before, leader, after) }
	sh, start, file := []string{"sh", "-c"}, []string{"python3", "-m", "dynamo.sglang"}, []string{"/w/serve.py"}
	worker := func(before string, after ...string) []string {
		return []string{strings.Join(append([]string{"exec " + before, sglangFlags + "$(LWS_WORKER_INDEX)"}, after...), " ")}
	}
	parameters := append([]string{`exec "$@"`, "--"}, start...)
	return map[string]sglangForm{
		"all in command": {[]string{"/usr/bin/python3.12", "-m", "dynamo.sglang"}, nil,
			[]string{"/usr/bin/python3.12", "-m", "dynamo.sglang"}, leader, sh, worker("/usr/bin/python3.12 -m dynamo.sglang")},
		"a file": {start[:1], file, start[:1], join(file), sh, worker("python3 /w/serve.py")},
		"wrapper": {[]string{"numactl", "--membind=0"}, append(slices.Clone(start), "--tp", "16"),
			[]string{"numactl", "--membind=0"}, join(start, "--tp", "16"), sh, worker("numactl --membind=0 python3 -m dynamo.sglang", "--tp 16")},
		"wrapper in command": {append([]string{"env", "A=b"}, append(slices.Clone(start), "--tp", "16")...), nil,
			append([]string{"env", "A=b"}, join(start, "--tp", "16")...), nil, sh, worker("env A=b python3 -m dynamo.sglang", "--tp 16")},
		"exec": {append([]string{"exec"}, start...), nil, start, leader, sh, worker("python3 -m dynamo.sglang")},
		"word by word to a shell": {shell, append(slices.Clone(start), "--tp", "16"),
			start[:1], join([]string{"-m", "dynamo.sglang", "--tp", "16"}), sh, worker("python3 -m dynamo.sglang --tp 16")},
		"a file, word by word":    {shell, append([]string{"python3"}, file...), start[:1], join(file), sh, worker("python3 /w/serve.py")},
		"a wrapper, word by word": {shell, append([]string{"nice"}, start...), []string{"nice"}, join(start), sh, worker("nice python3 -m dynamo.sglang")},
		"parameters of a script": {[]string{"bash", "-euo", "pipefail", "-c"}, parameters, []string{"bash", "-euo", "pipefail", "-c"}, join(parameters),
			sh, worker(`bash -euo pipefail -c 'exec "$@"' -- python3 -m dynamo.sglang`)},
	}
}

// sglangTexts are the ways that give shell text to some program.
func sglangTexts() map[string]sglangForm {
	const leader, worker = "python3 -m dynamo.sglang " + sglangFlags + "0", "python3 -m dynamo.sglang " + sglangFlags + "$(LWS_WORKER_INDEX)"
	login, entrypoint := []string{"bash", "-lc"}, []string{"/entrypoint.sh"}
	return map[string]sglangForm{
		"script in command": {[]string{"bash", "-c", "cd /w && python3 -m dynamo.sglang"}, nil,
			[]string{"bash", "-c", "cd /w && " + leader}, nil, []string{"bash", "-c", "cd /w && " + worker}, nil},
		"script with a name":    {login, []string{"python3 -m dynamo.sglang", "name"}, login, []string{leader, "name"}, login, []string{worker, "name"}},
		"text to an entrypoint": {entrypoint, []string{"python3 -m dynamo.sglang --tp 16"}, entrypoint, []string{leader + " --tp 16"}, entrypoint, []string{worker + " --tp 16"}},
	}
}

func TestSGLangIsWiredInEveryForm(t *testing.T) {
	t.Parallel()
	all := sglangWords()
	maps.Copy(all, sglangTexts())
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := multi{framework: "sglang", resources: eightGPUs, command: tc.command, args: tc.args}
			if diff := cmp.Diff(words(tc.leaderCommand, tc.leaderArgs), m.wire(LeaderWorkerSet, Leader).line()); diff != "" {
				t.Errorf("leader (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(words(tc.workerCommand, tc.workerArgs), m.wire(LeaderWorkerSet, Worker).line()); diff != "" {
				t.Errorf("worker (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARayLeaderRunsTheUsersScript(t *testing.T) {
	t.Parallel()
	const head, backend = "ray start --head --port=6379", "--distributed-executor-backend ray"
	for name, tc := range map[string]struct{ command, args, wantCommand, wantArgs []string }{
		"default shell": {nil, []string{"python3 -m dynamo.vllm --tensor-parallel-size 16"},
			shell, []string{head + " && python3 -m dynamo.vllm " + backend + " --tensor-parallel-size 16"}},
		"login shell": {[]string{"bash", "-lc"}, []string{"python3 -m dynamo.vllm -tp 16"},
			[]string{"bash", "-lc"}, []string{head + " && python3 -m dynamo.vllm " + backend + " -tp 16"}},
		"options apart": {[]string{"sh"}, []string{"-e", "-c", "python3 -m dynamo.vllm -tp=16"},
			[]string{"sh"}, []string{"-e", "-c", head + " && python3 -m dynamo.vllm " + backend + " -tp=16"}},
		"all in command": {[]string{"bash", "-c", "python3 -m dynamo.vllm -tp 16 | tee l"}, nil,
			[]string{"bash", "-c", head + " && python3 -m dynamo.vllm " + backend + " -tp 16 | tee l"}, nil},
		"chain": {nil, []string{"cd /w && python3 -m dynamo.vllm -tp 16"},
			shell, []string{head + " && cd /w && python3 -m dynamo.vllm " + backend + " -tp 16"}},
		"several commands": {nil, []string{"export X=1; python3 -m dynamo.vllm -tp 16"},
			shell, []string{head + " || exit; export X=1; python3 -m dynamo.vllm " + backend + " -tp 16"}},
		"flags beside the script": {nil, []string{"python3 -m dynamo.vllm", "--tensor-parallel-size 16", "--o", "a b"},
			shell, []string{head + " && python3 -m dynamo.vllm " + backend + " --tensor-parallel-size 16 --o 'a b'"}},
		"word by word to a shell": {nil, []string{"python3", "-m", "dynamo.vllm", "-tp", "16"},
			shell, []string{head + " && python3 -m dynamo.vllm -tp 16 " + backend}},
		"options with a value": {[]string{"bash", "-euo", "pipefail", "-c", "python3 -m dynamo.vllm -tp 16"}, nil,
			[]string{"bash", "-euo", "pipefail", "-c", head + " && python3 -m dynamo.vllm " + backend + " -tp 16"}, nil},
		"a shell among the words": {[]string{"python3"}, []string{"-m", "dynamo.vllm", "-tp", "16", "--run", "sh", "-c", "a b"},
			shell, []string{head + " && python3 -m dynamo.vllm -tp 16 --run sh -c 'a b' " + backend}},
		"wrapper": {[]string{"numactl", "-m0", "python3"}, []string{"-m", "dynamo.vllm", "-tp", "16"},
			shell, []string{head + " && numactl -m0 python3 -m dynamo.vllm -tp 16 " + backend}},
		"program that takes the flags": {[]string{"/start.sh"}, []string{"--tensor-parallel-size", "16"},
			shell, []string{head + " && /start.sh --tensor-parallel-size 16 " + backend}},
		"several words in one": {[]string{"python3"}, []string{"-m dynamo.vllm", "--tensor-parallel-size 16\n", "--name 'a b'"},
			shell, []string{head + " && python3 -m dynamo.vllm --tensor-parallel-size 16 --name 'a b' " + backend}},
		"text to an entrypoint": {[]string{"/entrypoint.sh"}, []string{"python3 -m dynamo.vllm -tp 16"},
			shell, []string{head + " && /entrypoint.sh python3 -m dynamo.vllm -tp 16 " + backend}},
		"back end given": {nil, []string{"python3 -m dynamo.vllm -tp 16 " + backend},
			shell, []string{head + " && python3 -m dynamo.vllm -tp 16 " + backend}},
		"other back end overruled": {[]string{"python3"}, []string{"-m", "dynamo.vllm", "-tp", "16", "--distributed-executor-backend=mp"},
			shell, []string{head + " && python3 -m dynamo.vllm -tp 16 --distributed-executor-backend=mp " + backend}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := multi{framework: "vllm", resources: eightGPUs, command: tc.command, args: tc.args}.wire(Grove, Leader)
			if diff := cmp.Diff(words(tc.wantCommand, tc.wantArgs), got.line()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMpirunStartsWhatTheUserStarts(t *testing.T) {
	t.Parallel()
	env := []corev1.EnvVar{{Name: "MODEL", Value: "/m"}, {Name: "ODD", Value: "it's"}, {Name: "FROM", ValueFrom: &corev1.EnvVarSource{}}}
	for name, tc := range map[string]struct {
		command, args []string
		want          string
	}{
		"direct":                   {[]string{"python3", "-m"}, []string{"dynamo.trtllm", "-x"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm -x'`},
		"script":                   {nil, []string{"python3 -m dynamo.trtllm -x 2>&1 | tee l"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm -x 2>&1 | tee l'`},
		"script in command":        {[]string{"bash", "-c", "python3 -m dynamo.trtllm"}, nil, `'trtllm-llmapi-launch python3 -m dynamo.trtllm'`},
		"script with a wrapper":    {nil, []string{"numactl -m0 python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch numactl -m0 python3 -m dynamo.trtllm'`},
		"word by word to a shell":  {nil, []string{"python3", "-m", "dynamo.trtllm", "--o", "a b"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --o '\''a b'\'''`},
		"flags beside the script":  {nil, []string{"python3 -m dynamo.trtllm", "--model-path /m"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --model-path /m'`},
		"flags as parameters":      {nil, []string{`python3 -m dynamo.trtllm "$0" "$@"`, "--model-path", "/m"}, `'trtllm-llmapi-launch /bin/sh -c '\''python3 -m dynamo.trtllm "$0" "$@"'\'' --model-path /m'`},
		"harmless quotes":          {nil, []string{"python3 -m dynamo.trtllm --model '/m'"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --model '/m''`},
		"quotes that matter":       {nil, []string{`python3 -m dynamo.trtllm --o '{"a": 1}'`}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --o '\''{"a": 1}'\'''`},
		"quotes in quotes":         {nil, []string{`python3 -m dynamo.trtllm --o "a'b'c"`}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --o "a'\''b'\''c"'`},
		"several commands":         {nil, []string{"export X=1; python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch /bin/sh -c '\''export X=1; python3 -m dynamo.trtllm'\'''`},
		"chain":                    {[]string{"bash", "-lc"}, []string{"cd /w && python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch bash -lc '\''cd /w && python3 -m dynamo.trtllm'\'''`},
		"program before the start": {nil, []string{"prepare && python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch /bin/sh -c '\''prepare && python3 -m dynamo.trtllm'\'''`},
		"shell's exec":             {nil, []string{"exec python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch /bin/sh -c '\''exec python3 -m dynamo.trtllm'\'''`},
		"assignment":               {nil, []string{"X=1 python3 -m dynamo.trtllm"}, `'trtllm-llmapi-launch /bin/sh -c '\''X=1 python3 -m dynamo.trtllm'\'''`},
		"script with a name":       {nil, []string{"python3 -m dynamo.trtllm", "name"}, `'trtllm-llmapi-launch /bin/sh -c '\''python3 -m dynamo.trtllm'\'' name'`},
		"exec":                     {[]string{"exec", "python3", "-m", "dynamo.trtllm"}, nil, `'trtllm-llmapi-launch python3 -m dynamo.trtllm'`},
		"wrapper":                  {[]string{"env", "A=b"}, []string{"python3", "-m", "dynamo.trtllm"}, `'trtllm-llmapi-launch env A=b python3 -m dynamo.trtllm'`},
		"any program":              {[]string{"/start.sh"}, []string{"--x"}, `'trtllm-llmapi-launch /start.sh --x'`},
		"any program in a script":  {nil, []string{"/start.sh --x"}, `'trtllm-llmapi-launch /start.sh --x'`},
		"JSON":                     {[]string{"python3"}, []string{"-m", "dynamo.trtllm", "--o", `{"a": 1}`}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm --o '\''{"a": 1}'\'''`},
		"reference":                {[]string{"python3"}, []string{"-m", "dynamo.trtllm", "$(MODEL)", "$(FROM)", "$(ELSEWHERE)", "$MODEL"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm $(MODEL) $(FROM) $(ELSEWHERE) $MODEL'`},
		"reference to a quote":     {[]string{"python3"}, []string{"-m", "dynamo.trtllm", "$(ODD)"}, `'trtllm-llmapi-launch python3 -m dynamo.trtllm "${ODD}"'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := multi{framework: "trtllm", resources: eightGPUs, env: env, command: tc.command, args: tc.args}.wire(Grove, Leader)
			if got.errs != nil {
				t.Fatal(got.errs.ToAggregate())
			}
			_, program, _ := strings.Cut(got.main.Args[0], " -x USER bash -c ")
			if diff := cmp.Diff(tc.want, program); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFlagsOfTheUserAreNotDoubled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		framework     string
		command, args []string
		leader        []string
		worker        string // empty for a command line that stays
	}{
		"one of three": {"sglang", []string{"python3"}, []string{"-m", "dynamo.sglang", "--nnodes=2"},
			[]string{"-m", "dynamo.sglang", "--nnodes=2", "--dist-init-addr", "$(LWS_LEADER_ADDRESS):29500", "--node-rank", "0"},
			"exec python3 -m dynamo.sglang --nnodes=2 --dist-init-addr $LWS_LEADER_ADDRESS:29500 --node-rank $(LWS_WORKER_INDEX)"},
		"other spellings": {"sglang", []string{"python3"}, []string{"-m", "dynamo.sglang", "--dist_init_addr", "h:1", "--nnodes", "2"},
			[]string{"-m", "dynamo.sglang", "--dist_init_addr", "h:1", "--nnodes", "2", "--node-rank", "0"},
			"exec python3 -m dynamo.sglang --dist_init_addr h:1 --nnodes 2 --node-rank $(LWS_WORKER_INDEX)"},
		"all": {"sglang", []string{"python3"}, []string{"-m", "dynamo.sglang", "--dist-init-addr", "h:1", "--nnodes", "$(N)", "--node-rank", "$(R)"},
			[]string{"-m", "dynamo.sglang", "--dist-init-addr", "h:1", "--nnodes", "$(N)", "--node-rank", "$(R)"}, ""},
		"a constant that cannot be right": {"sglang", []string{"python3"}, []string{"-m", "dynamo.sglang", "--node-rank", "0", "--nnodes", "4", "--dist-init-addr", "h:1"},
			[]string{"-m", "dynamo.sglang", "--node-rank", "0", "--nnodes", "4", "--dist-init-addr", "h:1", "--nnodes", "2"},
			"exec python3 -m dynamo.sglang --node-rank 0 --nnodes 4 --dist-init-addr h:1 --nnodes 2 --node-rank $(LWS_WORKER_INDEX)"},
		"local ranks": {"vllm", []string{"python3"}, []string{"-m", "dynamo.vllm", "-dp=8", "-dpl", "4", "-dpa", "h", "-dpp", "1", "--data-parallel-hybrid-lb"},
			[]string{"-m", "dynamo.vllm", "-dp=8", "-dpl", "4", "-dpa", "h", "-dpp", "1", "--data-parallel-hybrid-lb", "--data-parallel-start-rank", "0"},
			"exec python3 -m dynamo.vllm -dp=8 -dpl 4 -dpa h -dpp 1 --data-parallel-hybrid-lb --data-parallel-start-rank $((4 * LWS_WORKER_INDEX))"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			four := eightGPUs.DeepCopy()
			four.Limits.GPU = "4"
			m := multi{framework: tc.framework, resources: four, command: tc.command, args: tc.args}
			if diff := cmp.Diff(words(tc.command, tc.leader), m.wire(LeaderWorkerSet, Leader).line()); diff != "" {
				t.Errorf("leader (-want +got):\n%s", diff)
			}
			want := words([]string{"sh", "-c"}, []string{tc.worker})
			if tc.worker == "" {
				want = words(tc.command, tc.args)
			}
			if diff := cmp.Diff(want, m.wire(LeaderWorkerSet, Worker).line()); diff != "" {
				t.Errorf("worker (-want +got):\n%s", diff)
			}
		})
	}
}
