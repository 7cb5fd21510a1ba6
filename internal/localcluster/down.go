// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is the sum of what components may take, and then some.
	stopTimeout = 40 * time.Second
	// killTimeout bounds the wait for a killed process to vanish.
	killTimeout = 10 * time.Second
)

// ErrNotRunning says that there is no cluster to act on.
var ErrNotRunning = errors.New("the cluster is not running")

// Down stops the cluster in stateDir and, unless keep is set, removes everything it left. It reports ErrNotRunning when
// there was no cluster, after removing what an earlier one left.
func Down(ctx context.Context, stateDir string, keep bool) error {
	if _, err := os.Stat(stateDir); errors.Is(err, os.ErrNotExist) {
		return ErrNotRunning
	}
	stopped, err := stopSupervisor(ctx, stateDir)
	if err != nil {
		return err
	}
	if !keep {
		if err := discardState(ctx, stateDir); err != nil {
			return err
		}
	}
	if !stopped {
		return ErrNotRunning
	}
	return nil
}

// stopSupervisor asks the supervisor to end and, when it does not, kills it. It reports whether there was one.
func stopSupervisor(ctx context.Context, stateDir string) (bool, error) {
	held, err := lockHeld(filepath.Join(stateDir, lockFile))
	if err != nil || !held {
		return false, err
	}
	pid, err := supervisorPID(ctx, stateDir)
	if err != nil {
		return false, err
	}
	for _, attempt := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, stopTimeout}, {syscall.SIGKILL, killTimeout}} {
		if err := syscall.Kill(pid, attempt.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return true, fmt.Errorf("send %s to supervisor %d: %w", attempt.signal, pid, err)
		}
		err = awaitRelease(ctx, stateDir, attempt.limit)
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return true, err
	}
	record, err := readRecord(stateDir)
	if err != nil {
		return true, err
	}
	return true, awaitOrphans(ctx, record, stateDir)
}

// supervisorPID reads the number of the process that holds the lock; it is written right after the lock is taken.
func supervisorPID(ctx context.Context, stateDir string) (int, error) {
	var pid int
	err := poll(ctx, killTimeout, "the supervisor does not say who it is", func(context.Context) (bool, error) {
		content, err := os.ReadFile(filepath.Join(stateDir, pidFile))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("read supervisor's number: %w", err)
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		return err == nil && processExists(pid), nil
	})
	return pid, err
}

func awaitRelease(ctx context.Context, stateDir string, limit time.Duration) error {
	return poll(ctx, limit, "the supervisor did not end", func(context.Context) (bool, error) {
		held, err := lockHeld(filepath.Join(stateDir, lockFile))
		return !held, err
	})
}

// awaitOrphans waits for the children of a killed supervisor. The kernel has killed them, but they may take a moment to
// die, and until then they hold ports and files. A number counts only if it still belongs to a process that was started
// for this state directory: numbers are reused.
func awaitOrphans(ctx context.Context, record *Record, stateDir string) error {
	return poll(ctx, killTimeout, "processes of the previous cluster do not end", func(context.Context) (bool, error) {
		for _, c := range record.Components {
			if c.PID != 0 && processMentions(c.PID, stateDir) {
				return false, nil
			}
		}
		return true, nil
	})
}

// discardState removes the state directory unless another cluster has started in it meanwhile.
func discardState(ctx context.Context, stateDir string) error {
	lock, err := tryLock(filepath.Join(stateDir, lockFile))
	if errors.Is(err, errLocked) {
		return fmt.Errorf("another command has started a cluster in %s meanwhile; its state stays", stateDir)
	}
	if err != nil {
		return err
	}
	record, err := readRecord(stateDir)
	if err == nil {
		// Removing files under a process that is about to die would only make it write them again.
		err = awaitOrphans(ctx, record, stateDir)
	}
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, lock.release())
	}
	return removeState(stateDir, lock)
}

// processExists reports whether a process of that number is alive; one that is dead but not reaped is not.
func processExists(pid int) bool {
	if pid <= 0 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the command name, which is in parentheses and may itself contain any character.
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	state := strings.TrimSpace(string(after))
	return state != "" && state[0] != 'Z' && state[0] != 'X'
}

func processMentions(pid int, text string) bool {
	if !processExists(pid) {
		return false
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(command, []byte(text))
}
