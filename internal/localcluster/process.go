// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// spawner starts child processes that the kernel kills when this process dies.
//
// The kernel ties that promise to the thread that forked, not to the process: a Go thread that ends would take the
// children with it. So one goroutine owns one thread for as long as there may be children.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// Never unlocked: the runtime then ends the thread together with the goroutine instead of reusing it.
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

// close ends the spawning thread and with it every child that is still alive. No start may follow.
func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}

// processSpec says what to run.
type processSpec struct {
	name    string
	path    string
	args    []string
	env     []string
	dir     string
	logPath string
}

// process is a running or ended child.
type process struct {
	name    string
	logPath string
	// logStart is where in the log this run begins; what lies before is from an earlier one.
	logStart int64
	cmd      *exec.Cmd
	// ended is closed once the child was reaped; only then may the fields of cmd.ProcessState be read.
	ended chan struct{}
	// expected is set before a child is told to end, to tell an order from a crash.
	expected atomic.Bool
}

// launch starts spec with its output appended to its log file.
func (s *spawner) launch(spec processSpec) (*process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.logPath), 0o755); err != nil {
		return nil, fmt.Errorf("create log directory of %s: %w", spec.name, err)
	}
	log, err := os.OpenFile(spec.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	logStart, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.name, err)
	}
	cmd := exec.Command(spec.path, spec.args...)
	cmd.Dir, cmd.Env = spec.dir, spec.env
	cmd.Stdout, cmd.Stderr = log, log
	// A process group of its own keeps a terminal's Ctrl-C away: the order in which components end is decided here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	p := &process{name: spec.name, logPath: spec.logPath, logStart: logStart, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // the verdict stays in cmd.ProcessState
	}()
	return p, nil
}

func (p *process) pid() int {
	return p.cmd.Process.Pid
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// verdict says in words how an ended process ended.
func (p *process) verdict() string {
	return p.cmd.ProcessState.String()
}

// signal sends sig to a running process; an ended one is left alone, because its number may belong to another by now.
func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// stop asks the process to end and kills it when it has not done so within grace. It returns when the process is gone.
func (p *process) stop(grace time.Duration) error {
	p.expected.Store(true)
	if grace > 0 {
		if err := p.signal(syscall.SIGTERM); err != nil {
			return err
		}
		// A stopped process cannot act on the request to end.
		if err := p.signal(syscall.SIGCONT); err != nil {
			return err
		}
		select {
		case <-p.ended:
			return nil
		case <-time.After(grace):
		}
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// lastWords returns the last lines this run of the process has logged.
func (p *process) lastWords(lines int) string {
	return logTail(p.logPath, p.logStart, lines)
}

// LogTail returns the last lines of a component's log, or nothing when it cannot be read.
func LogTail(path string, lines int) string {
	return logTail(path, 0, lines)
}

// logTail returns the last lines of the part of a log that begins at from, or nothing when it cannot be read.
func logTail(path string, from int64, lines int) string {
	const enough = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || info.Size() <= from {
		return ""
	}
	start := max(from, info.Size()-enough)
	content := make([]byte, info.Size()-start)
	n, _ := file.ReadAt(content, start)
	return lastLines(string(content[:n]), lines)
}
