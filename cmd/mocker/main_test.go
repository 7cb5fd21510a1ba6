// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/test/leaks"
)

// beProgram in the environment makes the test binary the program that is tested.
const beProgram = "MOCKER_TEST_BE_PROGRAM"

// patience is generous: what takes milliseconds on an idle machine takes seconds beside a compiler.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(beProgram) != "" {
		main() // exits
	}
	leaks.Main(m)
}

// inProcess runs a command line that ends by itself.
func inProcess(t *testing.T, argv ...string) (code int, said string) {
	t.Helper()
	var out bytes.Buffer
	p := program{environ: []string{"PATH=/nowhere", "GREETING=hello"}, stdout: &out, stderr: &out, log: logr.Discard(), running: &sync.WaitGroup{}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return p.run(ctx, argv), out.String()
}

func TestCommandsThatEndAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte(`echo "$GREETING $1"; exit 7`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		argv []string
		code int
		said string
	}{
		"a script":                      {[]string{"/bin/sh", "-c", "echo $GREETING"}, 0, "hello"},
		"its parameters":                {[]string{"sh", "-c", `echo "$1-$#"`, "name", "a b", "c"}, 0, "a b-2"},
		"its exit code":                 {[]string{"bash", "-lc", "exit 5"}, 5, ""},
		"an error ends it":              {[]string{"sh", "-ec", "false; echo no"}, 1, ""},
		"options by name":               {[]string{"bash", "-euo", "pipefail", "-c", "false | true; echo no"}, 1, ""},
		"a file":                        {[]string{"sh", file, "you"}, 7, "hello you"},
		"a shell within":                {[]string{"sh", "-c", `GREETING=bye sh -c 'echo $GREETING'; sh -c 'exit 3' || echo $?`}, 0, "bye\n3"},
		"variables not exported":        {[]string{"sh", "-c", `X=1; sh -c 'echo "[$X]"'; export X; sh -c 'echo "[$X]"'`}, 0, "[]\n[1]"},
		"arithmetic of node ranks":      {[]string{"sh", "-c", `INDEX=2; echo $((INDEX + 1))`}, 0, "3"},
		"no such command":               {[]string{"sh", "-c", "-m dynamo.frontend"}, 127, `"-m": executable file not found in $PATH`},
		"no script":                     {[]string{"sh", "-c"}, 2, "sh: -c requires an argument"},
		"nothing for a shell":           {[]string{"sh"}, 2, "sh: give a script, as -c text or as a file"},
		"ray leaves a cluster behind":   {[]string{"sh", "-c", "ray start --head --port=6379 && echo on"}, 0, "on"},
		"sleep":                         {[]string{"sh", "-c", "sleep 0.001 && echo awake"}, 0, "awake"},
		"a version":                     {[]string{"/usr/bin/python3.11", "--version"}, 0, "Python 3.12.0"},
		"another module":                {[]string{"python3", "-m", "http.server"}, 1, `No module named "http.server"`},
		"a program in Python":           {[]string{"python", "-c", "print(1)"}, 2, "only modules of dynamo are simulated"},
		"a file in Python":              {[]string{"python", "-u", "main.py"}, 2, `not "main.py"`},
		"no module":                     {[]string{"python", "-u"}, 2, "name a module of dynamo"},
		"a launcher of nothing":         {[]string{"mpirun", "-n", "2", "hostname"}, 2, "nothing to run"},
		"a launcher":                    {[]string{"mpirun", "-n", "2", "python3", "-V"}, 0, "Python"},
		"no command":                    {[]string{"mocker"}, 2, "Usage:"},
		"help":                          {[]string{"mocker", "--help"}, 0, "Usage:"},
		"unknown command":               {[]string{"mocker", "dance"}, 2, `unknown command "dance"`},
		"another name by argument":      {[]string{"mocker", "sh", "-c", "echo hi"}, 0, "hi"},
		"a worker that cannot be":       {[]string{"python3", "-m", "dynamo.mocker", "--mock-clock", "sun"}, 1, "neither wall nor virtual"},
		"Kubernetes without a pod name": {[]string{"sh", "-c", "DYN_DISCOVERY_BACKEND=kubernetes python3 -m dynamo.vllm"}, 1, "set POD_NAME and POD_NAMESPACE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, said := inProcess(t, tc.argv...)
			if code != tc.code || !strings.Contains(said, tc.said) || tc.said == "" && said != "" {
				t.Errorf("code %d, want %d; said %q, want %q", code, tc.code, said, tc.said)
			}
		})
	}
}

// process is the program under one of its names.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	// addresses are where its parts listen, in the order in which they said so.
	addresses chan string
	ended     chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

// startProcess starts the program by a link of that name. It is killed with the test.
func startProcess(t *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(link, args...), addresses: make(chan string, 8), ended: make(chan struct{})} //nolint:noctx // ended by signals, as a kubelet does
	p.cmd.Env = append([]string{beProgram + "=1", "DYN_SYSTEM_HOST=127.0.0.1", "DYN_SYSTEM_PORT=0", "DYN_HTTP_HOST=127.0.0.1", "DYN_HTTP_PORT=0"}, env...)
	output, input := io.Pipe()
	p.cmd.Stderr = input
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(output)
	}()
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the code stays in cmd.ProcessState
		_ = input.Close()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		<-read
	})
	return p
}

func (p *process) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Address != "" {
			p.addresses <- line.Address
		}
	}
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// address is where the next part of the program listens.
func (p *process) address() string {
	p.t.Helper()
	select {
	case address := <-p.addresses:
		return "http://" + address
	case <-time.After(patience):
		p.t.Fatalf("it does not listen:\n%s", p.said())
		return ""
	}
}

// awaitExit waits until the process has ended and returns its code.
func (p *process) awaitExit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		p.t.Fatalf("it does not end:\n%s", p.said())
		return 0
	}
}

// ask sends a request until the answer is as wanted.
func ask(t *testing.T, url, body, want string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	deadline := time.After(patience)
	for {
		got := ""
		answer, err := send(t.Context(), client, url, body)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if got = string(text); strings.Contains(got, want) {
				return
			}
		}
		select {
		case <-deadline:
			t.Fatalf("%s: got %q, %v, want %q", url, got, err, want)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func send(ctx context.Context, client *http.Client, url, body string) (*http.Response, error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(r)
}

func TestAsPythonItIsAWorkerAndAFrontEndThatEndWhenTold(t *testing.T) {
	t.Parallel()
	worker := startProcess(t, "python3", []string{"MOCK_CLOCK=virtual"}, "-m", "dynamo.vllm", "--model", "acme/x", "--tensor-parallel-size", "2")
	system := worker.address()
	ask(t, system+"/health", "", `"ready"`)
	if log := worker.said(); !strings.Contains(log, `"flags":["--tensor-parallel-size","2"]`) {
		t.Errorf("it does not say what it ignores:\n%s", log)
	}
	frontend := startProcess(t, "python", []string{"MOCK_WORKERS=" + system}, "-m", "dynamo.frontend", "--router-mode", "kv")
	api := frontend.address()
	ask(t, api+"/v1/models", "", `"acme/x"`)
	ask(t, api+"/v1/completions", `{"model":"acme/x","prompt":"hi","max_tokens":2}`, `"token-0 token-1"`)
	for _, p := range []*process{frontend, worker} {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.awaitExit(); code != 0 {
			t.Errorf("it ended with %d:\n%s", code, p.said())
		}
	}
}

func TestAsAShellItRunsBothAndEndsBothWhenTold(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "sh", []string{"MOCK_CLOCK=virtual"}, "-c",
		"python3 -m dynamo.sglang --model-path acme/x --served-model-name=acme/y & exec python3 -m dynamo.frontend")
	first, second := p.address(), p.address()
	system, api := first, second
	if strings.Contains(p.said()[:strings.Index(p.said(), strings.TrimPrefix(first, "http://"))], "Front end started") {
		system, api = second, first
	}
	ask(t, system+"/health", "", `"ready"`)
	ask(t, api+"/health", "", `"healthy"`)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.awaitExit(); code != 0 {
		t.Errorf("it ended with %d:\n%s", code, p.said())
	}
}

func TestACrashEndsTheContainer(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "sh", nil, "-c", "python3 -m dynamo.trtllm --model-path acme/x; echo never")
	system := p.address()
	ask(t, system+"/health", "", `"ready"`)
	ask(t, system+"/mock/faults", `{"on":"live","kind":"crash","status":42}`, `"crash"`)
	answer, err := send(t.Context(), http.DefaultClient, system+"/live", "")
	if err == nil {
		_ = answer.Body.Close()
	}
	if code := p.awaitExit(); code != 42 {
		t.Errorf("it ended with %d:\n%s", code, p.said())
	}
}

func TestWhatIsNotSimulatedWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"a planner":                 {"python3", "-m", "dynamo.planner.planner_sla", "--backend=vllm"},
		"a worker of a leader":      {"python3", "-m", "dynamo.sglang", "--model-path", "x", "--node-rank", "1"},
		"a node of ray":             {"sh", "-c", "ray start --address=leader:6379 --block"},
		"a shell around one of two": {"sh", "-c", "python3 -m dynamo.vllm --headless & wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, argv[0], nil, argv[1:]...)
			deadline := time.After(patience)
			for !strings.Contains(p.said(), "waits for its end") {
				select {
				case <-deadline:
					t.Fatalf("it does not wait:\n%s", p.said())
				case <-time.After(10 * time.Millisecond):
				}
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := p.awaitExit(); code != 0 {
				t.Errorf("it ended with %d:\n%s", code, p.said())
			}
		})
	}
}

func TestTheEnvironmentOfACommandIsItsOwn(t *testing.T) {
	t.Parallel()
	p := program{environ: []string{"A=1", "B=", "A=2"}}
	got := map[string]string{}
	for _, name := range []string{"A", "B", "C"} {
		if value, ok := p.lookup(name); ok {
			got[name] = value
		}
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": ""}, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}
