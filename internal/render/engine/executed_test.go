// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Command lines are proved by running them as a node would: the kubelet's expansion with the variables that the
// orchestrator injects, then the real programs of the container. Only what needs a GPU, a network or root is a stub, which
// records the arguments it gets.

// record is the beginning of every stub: one file per call, the arguments separated by NUL.
const record = `#!/bin/sh
file="$RECORD/$(printf %03d "$(ls "$RECORD" | wc -l)")"
printf '%s\0' "${0##*/}" "$@" > "$file"
`

// stubs are the programs a node has beside those of the test's own system. mpirun runs its program once, here, and the
// launcher runs what it is given, so that the arguments of the engine itself are proved as well.
func stubs(t *testing.T, own map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{
		"ray": "", "python3": "", "ssh-keygen": "", "sshd": "", "getent": "", "numactl": `shift; exec "$@"`,
		"mpirun":               `while [ "$1" != bash ]; do shift; done; exec "$@"`,
		"trtllm-llmapi-launch": `exec "$@"`,
	}
	maps.Copy(all, own)
	for name, body := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(record+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// injected are the variables that an orchestrator gives to the pods of a group of three: the leader, or the second worker.
func injected(o Orchestrator, r Role) map[string]string {
	index := map[Role]int{Leader: 0, Worker: 2}[r]
	if o == LeaderWorkerSet {
		return map[string]string{
			"LWS_LEADER_ADDRESS": "graph-decode-0-0.graph-decode-0.prod", "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": fmt.Sprint(index),
		}
	}
	return map[string]string{
		"GROVE_PCSG_NAME": "graph-0-decode", "GROVE_PCSG_INDEX": "1", "GROVE_HEADLESS_SERVICE": "graph-0.prod.svc",
		"GROVE_PCLQ_POD_INDEX": fmt.Sprint(max(index-1, 0)), // workers are a clique of their own
	}
}

// hosts are the names of the three nodes of that group.
func hosts(o Orchestrator) []string {
	if o == LeaderWorkerSet {
		return []string{"graph-decode-0-0.graph-decode-0.prod", "graph-decode-0-0-1.graph-decode-0.prod", "graph-decode-0-0-2.graph-decode-0.prod"}
	}
	return []string{
		"graph-0-decode-1-decode-ldr-0.graph-0.prod.svc", "graph-0-decode-1-decode-wkr-0.graph-0.prod.svc", "graph-0-decode-1-decode-wkr-1.graph-0.prod.svc",
	}
}

// machine is where a container runs.
type machine struct {
	stubs string
	home  string
	keys  string
}

func newMachine(t *testing.T, stubs string) machine {
	t.Helper()
	m := machine{stubs: stubs, home: t.TempDir(), keys: t.TempDir()}
	for _, name := range []string{"private.key", "private.key.pub"} {
		if err := os.WriteFile(filepath.Join(m.keys, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A login shell starts with a PATH of its own.
	if err := os.WriteFile(filepath.Join(m.home, ".bash_profile"), []byte("PATH="+stubs+":$PATH\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return m
}

// run executes a container and returns the calls of stubs in their order. Two absolute paths are led elsewhere, because a
// test may not write there: the mounted keys and the SSH server.
func (m machine) run(t *testing.T, w wired, environment map[string]string) ([][]string, error) {
	t.Helper()
	if w.errs != nil {
		t.Fatal(w.errs.ToAggregate())
	}
	calls := t.TempDir()
	maps.Copy(environment, environ(w.main.Env))
	words := expandAll(slices.Concat(w.main.Command, w.main.Args), environment)
	for i := range words {
		words[i] = strings.ReplaceAll(strings.ReplaceAll(words[i], "/ssh-pk", m.keys), "/usr/sbin/sshd", m.stubs+"/sshd")
	}
	// env looks the program up on the PATH it is given, like a container runtime.
	set := append(environList(environment), "PATH="+m.stubs+":/usr/bin:/bin", "HOME="+m.home, "RECORD="+calls)
	cmd := exec.Command("/usr/bin/env", slices.Concat([]string{"-i"}, set, words)...)
	cmd.Dir = m.home
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	files, listErr := os.ReadDir(calls) // sorted by name
	if listErr != nil {
		t.Fatal(listErr)
	}
	var got [][]string
	for _, f := range files {
		data, readErr := os.ReadFile(filepath.Join(calls, f.Name()))
		if readErr != nil {
			t.Fatal(readErr)
		}
		got = append(got, strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"))
	}
	return got, err
}

// form is a way to write one command line. Every word of it arrives at the engine as in arrives.
type form struct {
	command, args []string
	arrives       []string
	// inside tells that flags come behind the module, and not at the end. Words behind Ray always have them at the end.
	inside, words bool
	// wrapper is the call of a stub before the engine's, launched what the launcher gets where that is more than Python.
	wrapper, launched func(engine []string) []string
}

// forms are all of them for one module. Flags are harmless ones of the engine that decide how it spreads.
func forms(module string, flags ...string) map[string]form {
	start := append([]string{"-m", module}, flags...)
	nasty := append(slices.Clone(start), "--json", `{"a": "b c", "d": [1, 2]}`, "--quotes", `it's "so"`, "--dollar", "$5 $HOME ${x}", "--back", `a\b\n`,
		"--ref", "$(PLAIN)/x", "--odd", "$(QUOTE)", "--escaped", "$$(PLAIN)", "--open", "$(open", "--empty", "", "--glob", "*", "--home", "~",
		"--lines", "a\nb", "--unicode", "✓ ü", "--shell", "a;b|c&d<e>f(g)`h`", "--declared=$(EMPTY)")
	arrives := expandAll(nasty, environ(odd()))
	text := "python3 -m " + module + " " + strings.Join(flags, " ") +
		` --json '{"a": "b c"}' --quotes "it's" --ref $(PLAIN)/x --odd "$QUOTE" --dollar '$5' --tail \` + "\n  end"
	read := append(slices.Clone(start), "--json", `{"a": "b c"}`, "--quotes", "it's", "--ref", "/models/a-b_c.d/x", "--odd", environ(odd())["QUOTE"],
		"--dollar", "$5", "--tail", "end")
	words := append([]string{"python3"}, nasty...)
	plain := "python3 " + strings.Join(start, " ") + " --x y"
	short := append(slices.Clone(start), "--x", "y")
	before := func(more ...string) func([]string) []string {
		return func(engine []string) []string { return append(slices.Clone(more), engine...) }
	}
	instead := func(more ...string) func([]string) []string { return func([]string) []string { return more } }
	several := "export X=1; cd / && " + plain + " | cat"
	return map[string]form{
		"direct":         {command: []string{"python3"}, args: nasty, arrives: arrives},
		"all in command": {command: words, arrives: arrives},
		"word by word":   {args: words, arrives: arrives},
		"env wrapper":    {command: []string{"env", "A=b"}, args: words, arrives: arrives, inside: true, words: true, launched: before("env", "A=b")},
		"numactl wrapper": {command: append([]string{"numactl", "--membind=0"}, words...), arrives: arrives, inside: true, words: true,
			wrapper: before("numactl", "--membind=0"), launched: before("numactl", "--membind=0")},
		"parameters": {command: []string{"bash", "-ec", `exec "$@"`, "name"}, args: words, arrives: arrives, inside: true, words: true,
			launched: before("bash", "-ec", `exec "$@"`, "name")},
		"script":             {args: []string{text}, arrives: read, inside: true},
		"script in command":  {command: []string{"bash", "-c", text}, arrives: read, inside: true},
		"login shell":        {command: []string{"bash", "-lc"}, args: []string{plain}, arrives: short, inside: true},
		"several commands":   {args: []string{several}, arrives: short, inside: true, launched: instead("/bin/sh", "-c", several)},
		"script of a script": {args: []string{"bash -c '" + plain + "'"}, arrives: short, inside: true, launched: instead("bash", "-c", plain)},
	}
}

// engineCall is the call of Python with our flags where they belong.
func (f form) engineCall(ours ...string) []string {
	at := len(f.arrives)
	if f.inside {
		at = slices.Index(f.arrives, "-m") + 2
	}
	return append([]string{"python3"}, slices.Insert(slices.Clone(f.arrives), at, ours...)...)
}

// engineCalls are that call and the one of the wrapper before it.
func (f form) engineCalls(ours ...string) [][]string {
	engine := f.engineCall(ours...)
	if f.wrapper != nil {
		return [][]string{f.wrapper(engine), engine}
	}
	return [][]string{engine}
}

func everywhere(t *testing.T, check func(t *testing.T, o Orchestrator, r Role)) {
	t.Helper()
	for orchestrator, o := range map[string]Orchestrator{"LeaderWorkerSet": LeaderWorkerSet, "Grove": Grove} {
		for role, r := range map[string]Role{"leader": Leader, "worker": Worker} {
			t.Run(orchestrator+" "+role, func(t *testing.T) {
				t.Parallel()
				check(t, o, r)
			})
		}
	}
}

func (f form) wire(framework string, o Orchestrator, r Role) wired {
	return multi{framework: framework, nodes: 3, resources: eightGPUs, env: odd(), command: f.command, args: f.args}.wire(o, r)
}

// proof runs one form on one node and compares every call.
func proof(t *testing.T, m machine, w wired, environment map[string]string, want [][]string) {
	t.Helper()
	got, err := m.run(t, w, environment)
	if err != nil {
		t.Fatalf("%v\n%s", err, w.line())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s\nof\n%s", diff, w.line())
	}
}

func TestSGLangGetsItsWordsAndItsPlace(t *testing.T) {
	t.Parallel()
	dir := stubs(t, nil)
	for name, f := range forms("dynamo.sglang", "--tp", "24") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, o Orchestrator, r Role) {
				t.Helper()
				rank := map[Role]string{Leader: "0", Worker: "2"}[r]
				want := f.engineCalls("--dist-init-addr", hosts(o)[0]+":29500", "--nnodes", "3", "--node-rank", rank)
				proof(t, newMachine(t, dir), f.wire("sglang", o, r), injected(o, r), want)
			})
		})
	}
}

func TestDataParallelVLLMGetsItsWordsAndItsPlace(t *testing.T) {
	t.Parallel()
	dir := stubs(t, nil)
	for name, f := range forms("dynamo.vllm", "--data-parallel-size", "12", "-tp=2") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, o Orchestrator, r Role) {
				t.Helper()
				first := map[Role]string{Leader: "0", Worker: "8"}[r]
				want := f.engineCalls("--data-parallel-hybrid-lb", "--data-parallel-size-local", "4", "--data-parallel-start-rank", first,
					"--data-parallel-address", hosts(o)[0], "--data-parallel-rpc-port", "13445")
				proof(t, newMachine(t, dir), f.wire("vllm", o, r), injected(o, r), want)
			})
		})
	}
}

func TestVLLMOverRayGetsItsWordsAndItsPlace(t *testing.T) {
	t.Parallel()
	dir := stubs(t, nil)
	for name, f := range forms("dynamo.vllm", "--tensor-parallel-size", "24") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, o Orchestrator, r Role) {
				t.Helper()
				want := [][]string{{"ray", "start", "--address=" + hosts(o)[0] + ":6379", "--block"}}
				if r == Leader {
					ray := f
					ray.inside = f.inside && !f.words
					want = append([][]string{{"ray", "start", "--head", "--port=6379"}}, ray.engineCalls("--distributed-executor-backend", "ray")...)
				}
				proof(t, newMachine(t, dir), f.wire("vllm", o, r), injected(o, r), want)
			})
		})
	}
}

func TestTensorRTGetsItsWordsAndItsNodes(t *testing.T) {
	t.Parallel()
	dir := stubs(t, nil)
	for name, f := range forms("dynamo.trtllm", "--model-path", "/m") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, o Orchestrator, r Role) {
				t.Helper()
				m := newMachine(t, dir)
				w := f.wire("trtllm", o, r)
				if r == Worker {
					proof(t, m, w, injected(o, r), m.serverCalls())
					m.checkServer(t)
					return
				}
				want := [][]string{}
				if o == LeaderWorkerSet {
					want = append(want, []string{"getent", "hosts", hosts(o)[1]}, []string{"getent", "hosts", hosts(o)[2]})
				}
				engine := f.engineCall()
				launched := engine
				if f.launched != nil {
					launched = f.launched(engine)
				}
				want = append(want, slices.Concat(mpirunCall(o), []string{"bash", "-c"}, []string{inner(t, w, injected(o, r))}),
					append([]string{"trtllm-llmapi-launch"}, launched...))
				want = append(want, f.engineCalls()...)
				proof(t, m, w, injected(o, r), want)
				m.checkClient(t)
			})
		})
	}
}

// mpirunCall is what comes before the program.
func mpirunCall(o Orchestrator) []string {
	call := []string{
		"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "24", "-H", strings.Join(hosts(o), ","), "--mca", "pml", "ob1",
		"--mca", "plm_rsh_args", "-p 2222 -o StrictHostKeyChecking=no -i ~/.ssh/id_rsa",
	}
	passed := []string{"OMPI_MCA_orte_keep_fqdn_hostnames"}
	for _, e := range odd() {
		passed = append(passed, e.Name)
	}
	passed = append(passed, passedOn...)
	slices.Sort(passed)
	for _, name := range passed {
		call = append(call, "-x", name)
	}
	return call
}

// inner is the script that mpirun gets. It is compared by what it does: the calls that follow.
func inner(t *testing.T, w wired, environment map[string]string) string {
	t.Helper()
	maps.Copy(environment, environ(w.main.Env))
	_, text, found := strings.Cut(kubeletExpand(w.main.Args[0], environment), "-x dotted.name bash -c ")
	commands, ok := read(text)
	if !found || !ok || len(commands) != 1 || len(commands[0].words) != 1 {
		t.Fatalf("not one word: %s", text)
	}
	return commands[0].words[0]
}

// serverCalls are those of a worker.
func (m machine) serverCalls() [][]string {
	var calls [][]string
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		calls = append(calls, []string{"ssh-keygen", "-t", kind, "-f", m.home + "/.ssh/host_keys/ssh_host_" + kind + "_key", "-N", ""})
	}
	return append(calls, []string{"sshd", "-D", "-f", m.home + "/.ssh/sshd_config"})
}

func (m machine) checkClient(t *testing.T) {
	t.Helper()
	m.checkFiles(t, map[string]string{
		"id_rsa": "private.key", "id_rsa.pub": "private.key.pub", "authorized_keys": "private.key.pub",
		"config": "Host *\nIdentityFile ~/.ssh/id_rsa\nStrictHostKeyChecking no\nPort 2222\n",
	})
	info, err := os.Stat(filepath.Join(m.home, ".ssh", "id_rsa"))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the private key is %o, want 600", got)
	}
}

func (m machine) checkServer(t *testing.T) {
	t.Helper()
	m.checkClient(t)
	m.checkFiles(t, map[string]string{"sshd_config": `Port 2222
HostKey ~/.ssh/host_keys/ssh_host_rsa_key
HostKey ~/.ssh/host_keys/ssh_host_ecdsa_key
HostKey ~/.ssh/host_keys/ssh_host_ed25519_key
PidFile ~/.ssh/run/sshd.pid
PermitRootLogin yes
PasswordAuthentication no
PubkeyAuthentication yes
AuthorizedKeysFile ~/.ssh/authorized_keys
`})
}

func (m machine) checkFiles(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		data, err := os.ReadFile(filepath.Join(m.home, ".ssh", name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
