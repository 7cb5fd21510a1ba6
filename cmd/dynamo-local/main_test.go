// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/test/leaks"
)

// The test binary plays the program under test and the operator that the program starts.
const (
	roleVariable = "DYNAMO_LOCAL_TEST_ROLE"
	roleProgram  = "program"
	roleOperator = "operator"
	roleIdle     = "idle operator"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		leaks.Main(m)
	case roleProgram:
		main()
	default:
		if err := playOperator(role == roleIdle); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// playOperator declares every graph ready, unless it is idle, with the means an operator has: its kubeconfig and flags.
func playOperator(idle bool) error {
	probes := flag.String("health-probe-bind-address", "", "")
	_ = flag.String("metrics-bind-address", "", "")
	flag.Parse()
	fmt.Fprintln(os.Stderr, "fake operator is here")
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	go func() { _ = http.ListenAndServe(*probes, mux) }()
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	for range time.Tick(100 * time.Millisecond) {
		if idle {
			continue
		}
		if err := finishGraphs(context.Background(), api); err != nil {
			return err
		}
	}
	return nil
}

func finishGraphs(ctx context.Context, api client.Client) error {
	var graphs v1alpha1.DynamoGraphDeploymentList
	if err := api.List(ctx, &graphs); err != nil {
		return err
	}
	for i := range graphs.Items {
		graph := &graphs.Items[i]
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Name: graph.Name + "-child", Namespace: graph.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(graph, v1alpha1.GroupVersion.WithKind("DynamoGraphDeployment"))},
		}}
		if err := client.IgnoreAlreadyExists(api.Create(ctx, account)); err != nil {
			return err
		}
		meta.SetStatusCondition(&graph.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Done", Message: "all done",
		})
		graph.Status.ObservedGeneration = graph.Generation
		if err := api.Status().Update(ctx, graph); err != nil {
			return err
		}
	}
	return nil
}

// program is the program under test with a state directory of its own.
type program struct {
	t     *testing.T
	state string
}

func newProgram(t *testing.T) *program {
	t.Helper()
	return &program{t: t, state: t.TempDir()}
}

// run returns what the program wrote and whether it succeeded.
func (p *program) run(args ...string) (stdout, stderr string, ok bool) {
	p.t.Helper()
	var out, problems bytes.Buffer
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+roleProgram, "DYNAMO_STATE="+p.state)
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	p.t.Logf("dynamo-local %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), problems.String())
	return out.String(), problems.String(), err == nil
}

// mustRun fails the test when the program does.
func (p *program) mustRun(args ...string) (stdout, stderr string) {
	p.t.Helper()
	stdout, stderr, ok := p.run(args...)
	if !ok {
		p.t.Fatalf("dynamo-local %s failed", strings.Join(args, " "))
	}
	return stdout, stderr
}

// operatorBinary writes an executable that plays the operator; the comment makes its content unique.
func operatorBinary(t *testing.T, role, comment string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "operator")
	script := fmt.Sprintf("#!/bin/sh\n# %s\n%s='%s' exec '%s' \"$@\"\n", comment, roleVariable, role, os.Args[0])
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func graphFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "graph.yaml")
	manifest := "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: quick}\nspec: {services: {web: {componentType: frontend}}}\n"
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func assertContains(t *testing.T, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("output lacks %q:\n%s", want, text)
		}
	}
}

func TestDemoShowsTheTreeAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	t.Cleanup(func() { p.run("down", "--name", "demo") })
	demo := func(operator string) (string, string) {
		return p.mustRun("demo", "--operator", operator, "--file", graphFile(t), "--nodes", "1", "--timeout", "1m")
	}
	operator := operatorBinary(t, roleOperator, "first")
	stdout, _ := demo(operator)
	assertContains(t, stdout, "ready: all done", "DynamoGraphDeployment quick  ready\n`-- ServiceAccount quick-child", "export KUBECONFIG=", "make demo-down")

	_, stderr := demo(operator)
	assertContains(t, stderr, "using cluster demo, which is running already")
	_, stderr = demo(operatorBinary(t, roleOperator, "rebuilt"))
	assertContains(t, stderr, "starting cluster demo again: the operator is another one")

	kubeconfig, _ := p.mustRun("kubeconfig", "--name", "demo", "--user", "dynamo-operator")
	if _, err := os.Stat(strings.TrimSuffix(kubeconfig, "\n")); err != nil {
		t.Errorf("kubeconfig printed something else than a path: %v", err)
	}
	stdout, _ = p.mustRun("status", "--name", "demo")
	assertContains(t, stdout, "cluster demo is ready", "kube-apiserver", "operator", "sim-0")
	p.mustRun("down", "--name", "demo")
	if _, _, ok := p.run("status", "--name", "demo"); ok {
		t.Error("status of a stopped cluster succeeds")
	}
}

func TestDemoThatDoesNotEndWellExplainsItself(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	t.Cleanup(func() { p.run("down", "--name", "demo") })
	operator := operatorBinary(t, roleIdle, "idle")
	stdout, stderr, ok := p.run("demo", "--operator", operator, "--file", graphFile(t), "--nodes", "1", "--timeout", "1s")
	if ok {
		t.Error("the demo succeeds without an operator at work")
	}
	assertContains(t, stdout, "not looked at by the operator yet", "last lines of the operator's log", "fake operator is here", "export KUBECONFIG=")
	assertContains(t, stderr, "the graph did not become ready within 1s")
	p.mustRun("status", "--name", "demo")
}

func TestMistakesAreExplained(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown cluster":           {args: []string{"kubeconfig"}, want: "start it with: dynamo-local up --name default"},
		"bad name":                  {args: []string{"status", "--name", "../x"}, want: "cluster name"},
		"bad format":                {args: []string{"status", "-o", "xml"}, want: "only json"},
		"arguments for no operator": {args: []string{"up", "--", "--flag"}, want: "need --operator"},
		"missing operator":          {args: []string{"up", "--operator", "no-such-file"}, want: "operator binary"},
		"demo of nothing":           {args: []string{"demo"}, want: "required flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, ok := (&program{t: t, state: p.state}).run(tc.args...)
			if ok {
				t.Fatal("the mistake was accepted")
			}
			assertContains(t, stderr, tc.want)
		})
	}
}

func TestStoppingWhatDoesNotRunIsNoMistake(t *testing.T) {
	t.Parallel()
	_, stderr := newProgram(t).mustRun("down")
	assertContains(t, stderr, "cluster default was not running")
}

func TestStatusOfNothingIsReadableByPrograms(t *testing.T) {
	t.Parallel()
	stdout, stderr, ok := newProgram(t).run("status", "-o", "json")
	if ok || stderr != "" {
		t.Errorf("succeeded: %t, complained: %q, want a silent failure", ok, stderr)
	}
	assertContains(t, stdout, `"running": false`)
}

func TestBinPrintsNothingButTheDirectory(t *testing.T) {
	t.Parallel()
	stdout, _ := newProgram(t).mustRun("bin")
	dir := strings.TrimSuffix(stdout, "\n")
	for _, binary := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "lws-manager"} {
		if info, err := os.Stat(filepath.Join(dir, binary)); err != nil || info.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s is not an executable in %q: %v", binary, dir, err)
		}
	}
}
