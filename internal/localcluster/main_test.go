// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/dynamo-operator/dynamo-operator/test/leaks"
)

// Tests about processes need processes to kill. The test binary plays them: a variable says which part, another one
// where the cluster lives.
const (
	roleVariable  = "LOCALCLUSTER_TEST_ROLE"
	stateVariable = "LOCALCLUSTER_TEST_STATE"

	roleSupervisor = "supervisor"
	roleLauncher   = "launcher"
	roleParent     = "parent"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role, os.Getenv(stateVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaks.Main(m)
}

func play(role, state string) error {
	switch role {
	case roleSupervisor:
		return Supervise(func(*Options) {})
	case roleLauncher:
		_, err := Up(context.Background(), Options{StateDir: state, Progress: os.Stderr}, supervisorCommand())
		return err
	case roleParent:
		if _, err := Start(context.Background(), Options{StateDir: state}); err != nil {
			return err
		}
		select {} // until killed
	}
	return fmt.Errorf("no role %q", role)
}

// supervisorCommand makes this binary play the supervisor.
func supervisorCommand() []string {
	return []string{"/usr/bin/env", roleVariable + "=" + roleSupervisor, os.Args[0]}
}

// playInBackground starts this binary in a role. The test may kill it; what is left of it is killed at the end.
func playInBackground(t *testing.T, role, state string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, stateVariable+"="+state)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// clusterState returns a state directory and makes sure that no cluster is left in it when the test ends.
func clusterState(t *testing.T) string {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() {
		_ = Down(context.WithoutCancel(t.Context()), state, false)
		if left := processesOf(t, state); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return state
}

// processesOf lists the living processes whose command line mentions the state directory; every component's does.
func processesOf(t *testing.T, state string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !processMentions(pid, state) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		name, _, _ := bytes.Cut(command, []byte{0})
		found = append(found, fmt.Sprintf("%d %s", pid, filepath.Base(string(name))))
	}
	return found
}

// awaitNoProcess waits until every component of a cluster is gone.
func awaitNoProcess(t *testing.T, state string) {
	t.Helper()
	eventually(t, "end of all processes", func() bool { return len(processesOf(t, state)) == 0 })
}

// awaitComponent waits until a component of a cluster that is being started runs.
func awaitComponent(t *testing.T, state, name string) {
	t.Helper()
	eventually(t, "start of "+name, func() bool {
		return strings.Contains(strings.Join(processesOf(t, state), "\n"), name)
	})
}

// patience is long because several clusters start at once on few cores.
const patience = 90 * time.Second

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := poll(t.Context(), patience, what+" did not happen", func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
