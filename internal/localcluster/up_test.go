// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func mustUp(t *testing.T, o Options) *UpResult {
	t.Helper()
	o.Progress = os.Stderr
	result, err := Up(t.Context(), o, supervisorCommand())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func mustDown(t *testing.T, state string, keep bool) {
	t.Helper()
	if err := Down(t.Context(), state, keep); err != nil {
		t.Fatal(err)
	}
}

func TestUpIsDoneOnceHoweverManyAskForIt(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	results := make([]*UpResult, 3)
	var asking sync.WaitGroup
	for i := range results {
		asking.Go(func() {
			result, err := Up(t.Context(), Options{StateDir: state}, supervisorCommand())
			if err != nil {
				t.Error(err)
				return
			}
			results[i] = result
		})
	}
	asking.Wait()
	started := 0
	for _, result := range results {
		if result != nil && !result.AlreadyRunning {
			started++
		}
	}
	if started != 1 {
		t.Errorf("%d of three started the cluster, want one", started)
	}
	status, err := ReadStatus(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	if !status.Healthy() || status.Phase != PhaseReady {
		t.Errorf("status is %+v, want healthy and ready", status)
	}
	mustDown(t, state, false)
	if _, err := os.Stat(state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state is left after down: %v", err)
	}
	if _, err := ReadStatus(t.Context(), state); !errors.Is(err, ErrNotRunning) {
		t.Errorf("status after down: %v, want %v", err, ErrNotRunning)
	}
	if err := Down(t.Context(), state, false); !errors.Is(err, ErrNotRunning) {
		t.Errorf("second down: %v, want %v", err, ErrNotRunning)
	}
}

func TestKilledLauncherLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	launcher := playInBackground(t, roleLauncher, state)
	awaitComponent(t, state, APIServer)
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, state)
}

func TestInterruptedUpStopsWhatItStarted(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		awaitComponent(t, state, APIServer)
		cancel(interrupted)
	}()
	if _, err := Up(ctx, Options{StateDir: state}, supervisorCommand()); !errors.Is(err, interrupted) {
		t.Errorf("up: %v, want %v", err, interrupted)
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestStateOfAKilledSupervisorIsUsedAgain(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	first := mustUp(t, Options{StateDir: state})
	uid := namespaceUID(t, first.Record)
	if err := syscall.Kill(first.Record.SupervisorPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitStopped(t, state)

	second := mustUp(t, Options{StateDir: state})
	if second.AlreadyRunning {
		t.Error("a dead cluster was taken for a running one")
	}
	if got := namespaceUID(t, second.Record); got != uid {
		t.Errorf("namespace default has UID %s, had %s: data is lost", got, uid)
	}
	if first.Record.Server != second.Record.Server {
		t.Logf("address changed from %s to %s because the port was taken", first.Record.Server, second.Record.Server)
	}
	mustDown(t, state, true)
	if path, err := Kubeconfig(state, UserAdmin); err != nil {
		t.Errorf("kept state has no kubeconfig %q: %v", path, err)
	}
}

func TestFailedUpReportsTheCauseAndLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	state := clusterState(t)
	_, err := Up(t.Context(), Options{StateDir: state, APIServerArgs: []string{"--no-such-flag"}}, supervisorCommand())
	if err == nil {
		t.Fatal("a nonsensical flag was accepted")
	}
	if left := processesOf(t, state); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// awaitStopped waits until neither components nor a supervisor are left.
func awaitStopped(t *testing.T, state string) {
	t.Helper()
	eventually(t, "end of the supervisor", func() bool {
		_, err := ReadStatus(t.Context(), state)
		return errors.Is(err, ErrNotRunning)
	})
	awaitNoProcess(t, state)
}

func namespaceUID(t *testing.T, record *Record) string {
	t.Helper()
	config, err := LoadRESTConfig(record.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := api.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(namespace.UID)
}
