// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// oldestGo is the oldest toolchain that compiles the pinned modules.
	oldestGo = "go1.26"
	// interruptGrace is how long an interrupted go command may take to end its compilers.
	interruptGrace = 5 * time.Second
	// failureTail is how much of a failed build's output is worth showing.
	failureTail = 20
)

// compileWithGo builds a from the module in work into out.
func compileWithGo(ctx context.Context, a artefact, work, out string) error {
	if err := checkGo(ctx, work); err != nil {
		return err
	}
	_, err := runGo(ctx, work, "build", "-mod=readonly", "-trimpath",
		"-ldflags", a.linkerFlags(), "-o", filepath.Join(out, a.name), a.pkg)
	if err != nil {
		return err
	}
	return copyExtras(ctx, a, work, out)
}

// checkGo says early and in words what the compiler would say late and cryptically.
func checkGo(ctx context.Context, work string) error {
	found, err := runGo(ctx, work, "env", "GOVERSION")
	if err != nil {
		return toolMissing(err)
	}
	if found = strings.TrimSpace(found); version.Compare(found, oldestGo) < 0 {
		return fmt.Errorf("%s or newer is needed, the go command on the PATH is %s; install a newer one from https://go.dev/dl", oldestGo, found)
	}
	return nil
}

// toolMissing is the answer when there is no go command; everything here needs one.
func toolMissing(err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("the go command is not on the PATH; install " + oldestGo + " or newer from https://go.dev/dl and try again")
	}
	return err
}

// copyExtras takes run-time files such as CRDs out of the module's own source tree, so that they match the binary.
func copyExtras(ctx context.Context, a artefact, work, out string) error {
	if len(a.extras) == 0 {
		return nil
	}
	root, err := runGo(ctx, work, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", a.extrasFrom)
	if err != nil {
		return fmt.Errorf("find the source of %s: %w", a.extrasFrom, err)
	}
	root = strings.TrimSpace(root)
	for _, pattern := range a.extras {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s has no file %s", a.extrasFrom, pattern)
		}
		for _, file := range files {
			relative, err := filepath.Rel(root, file)
			if err != nil {
				return fmt.Errorf("copy %s: %w", file, err)
			}
			if err := copyFile(file, filepath.Join(out, extrasDirectory, relative)); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// runGo runs the go command in dir and returns its output.
// The command gets a process group of its own, so that its compilers end with it, and dies with this process.
func runGo(ctx context.Context, dir string, args ...string) (string, error) {
	// The parent-death signal follows the thread that forked, so the thread must not end before the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stdout, output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = goEnvironment()
	cmd.Stdout, cmd.Stderr = &stdout, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptGrace
	err := cmd.Run()
	if ctx.Err() != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return "", context.Cause(ctx)
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, lastLines(output.String(), failureTail))
	}
	if err != nil {
		return "", fmt.Errorf("run the go command: %w", err)
	}
	return stdout.String(), nil
}

// goEnvironment shields the build from settings meant for the checkout the caller stands in.
// C is not needed by any component, and without it the result does not depend on the machine's compiler or libc.
func goEnvironment() []string {
	return append(os.Environ(),
		"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
}

// lastLines returns the last n lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}
