// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugin runs kubectl dynamo against a cluster: what it finds out before an installation, and what it takes home.
package plugin

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// plugin runs kubectl dynamo as a user and returns its exit code and what it printed.
func plugin(t *testing.T, user string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	harness.RESTConfig(t, user) // adds a user that is new
	kubeconfig, err := harness.Cluster(t).Kubeconfig(user)
	if err != nil {
		t.Fatal(err)
	}
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t), append(args, "--kubeconfig", kubeconfig)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode(), out.String(), problems.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, out.String(), problems.String()
}

func program(t *testing.T) string {
	t.Helper()
	return harness.Program(t, "kubectl-dynamo")
}

const admin = localcluster.UserAdmin
