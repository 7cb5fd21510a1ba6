// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// processes numbers the operators that run as processes, so that their logs have different names.
var processes atomic.Int64

// module is this tree.
const module = "github.com/dynamo-operator/dynamo-operator"

// programs are those that were built, each once for all tests of a package.
var programs sync.Map

// Program builds a program of this tree, such as operator or mocker, and returns its path.
func Program(t testing.TB, name string) string {
	t.Helper()
	build, _ := programs.LoadOrStore(name, sync.OnceValues(func() (string, error) {
		path := filepath.Join(current.Load().options.StateDir, name)
		// Tests of another module get what users get, too, and not what the versions of that module would make.
		root, err := repository()
		if err != nil {
			return "", err
		}
		said, err := exec.Command("go", "build", "-C", root, "-o", path, "./cmd/"+name).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("build %s: %w: %s", name, err, said)
		}
		return path, nil
	}))
	path, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// repository is the root of this tree.
func repository() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", module, err)
	}
	return strings.TrimSpace(string(root)), nil
}

// EarlierOperator is the operator of an earlier revision of this tree as a program. It is built once per machine.
func EarlierOperator(t testing.TB, revision string) string {
	t.Helper()
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "sh", "tools/earlier.sh", revision)
	var said strings.Builder
	build.Dir, build.Stderr = root, &said
	directory, err := build.Output()
	if err != nil {
		t.Fatalf("the operator of revision %s cannot run: %v\n%s", revision, err, said.String())
	}
	return filepath.Join(strings.TrimSpace(string(directory)), "operator")
}

// OperatorBinary is the operator of this tree as a program.
func OperatorBinary(t testing.TB) string {
	t.Helper()
	return Program(t, "operator")
}

// Process is an operator that runs as it does for users: its own process, its own memory, its own signals.
type Process struct {
	// Name is unique; User is its identity at the API server; Health and Metrics are where it listens.
	Name, User, Health, Metrics string

	t testing.TB
}

// ProcessOptions say how to start an operator as a process.
type ProcessOptions struct {
	// User is its identity. It gets the shipped role where it works. Replicas of one operator share it.
	User string
	// Namespace is the only one it works in; empty means all.
	Namespace string
	// Binary is the program; empty means the operator of this tree, built once per test package.
	Binary string
	// Flags are further flags, Env further environment variables.
	Flags, Env []string
	// Kubeconfig are credentials that the test has made, with the rights that it has given them. The command line is then
	// Flags and nothing else, and Health and Metrics tell where they make it listen, Namespace where they make it work.
	Kubeconfig, Health, Metrics string
	// Unready says not to wait until it is ready, for example because it stands by, or must not start.
	Unready bool
}

// StartProcess starts the operator as a process and waits until it is ready. It is killed with the test.
func StartProcess(t testing.TB, o ProcessOptions) *Process {
	t.Helper()
	binary := o.Binary
	if binary == "" {
		binary = OperatorBinary(t)
	}
	p := &Process{Name: fmt.Sprintf("operator-%d", processes.Add(1)), User: o.User, Health: o.Health, Metrics: o.Metrics, t: t}
	kubeconfig, args := o.Kubeconfig, o.Flags
	if kubeconfig == "" {
		p.Health, p.Metrics = UnusedAddress(t), UnusedAddress(t)
		kubeconfig = credentials(t, o)
		args = append([]string{
			"--health-probe-bind-address=" + p.Health, "--metrics-bind-address=" + p.Metrics, "--restrictedNamespace=" + o.Namespace,
		}, o.Flags...)
	}
	note(t, o.Namespace, o.User)
	ready := "http://" + p.Health + "/readyz"
	if o.Unready {
		ready = ""
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := Cluster(t).StartProcess(ctx, localcluster.ProcessOptions{
		Name: p.Name, Path: binary, Args: args, ReadyURL: ready,
		Env: append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + kubeconfig}, o.Env...),
	})
	t.Cleanup(p.Kill)
	if err != nil {
		t.Fatalf("start the operator: %v\n%s", err, p.LastWords(30))
	}
	return p
}

// credentials gives a user the shipped role where it works, and returns its kubeconfig.
func credentials(t testing.TB, o ProcessOptions) string {
	t.Helper()
	grantShippedRole(t, o.Namespace, o.User)
	RESTConfig(t, o.User) // makes its credentials
	kubeconfig, err := Cluster(t).Kubeconfig(o.User)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// Kill ends the process as SIGKILL does.
func (p *Process) Kill() {
	p.t.Helper()
	if err := Cluster(p.t).Kill(p.Name); err != nil {
		p.t.Errorf("kill %s: %v", p.Name, err)
	}
}

// Stop asks the process to end, as a kubelet does, and waits for it.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	p.AwaitEnd(stopTimeout)
}

// Signal sends a signal.
func (p *Process) Signal(sig os.Signal) {
	p.t.Helper()
	if err := Cluster(p.t).Signal(p.Name, sig); err != nil {
		p.t.Errorf("signal %s: %v", p.Name, err)
	}
}

// AwaitEnd waits until the process has ended, for whatever reason.
func (p *Process) AwaitEnd(limit time.Duration) {
	p.t.Helper()
	ended, err := Cluster(p.t).Exited(p.Name)
	if err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(limit):
		p.t.Fatalf("%s did not end within %s:\n%s", p.Name, limit, p.LastWords(30))
	}
}

// Verdict is how the process ended, such as "exit status 0", and empty while it runs.
func (p *Process) Verdict() string {
	p.t.Helper()
	if _, err := Cluster(p.t).PID(p.Name); err != nil {
		_, verdict, _ := strings.Cut(err.Error(), "(")
		return strings.TrimSuffix(verdict, ")")
	}
	return ""
}

// Ready tells whether the process says of itself that it is ready.
func (p *Process) Ready() bool {
	answer, err := http.Get("http://" + p.Health + "/readyz") //nolint:noctx // the loopback answers at once or refuses
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Log is everything the process has said.
func (p *Process) Log() string {
	p.t.Helper()
	said, err := os.ReadFile(Cluster(p.t).LogPath(p.Name))
	if err != nil {
		p.t.Fatalf("read the log of %s: %v", p.Name, err)
	}
	return string(said)
}

// LastWords are the last lines of the log.
func (p *Process) LastWords(lines int) string {
	return localcluster.LogTail(Cluster(p.t).LogPath(p.Name), lines)
}
