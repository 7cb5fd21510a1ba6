// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// farewell is how long a supervisor may take to stop what it has started when the launcher gives up.
const farewell = 30 * time.Second

// errLostRace says that another launcher's supervisor took the state directory first.
var errLostRace = errors.New("another command is starting the cluster")

// UpResult says what Up found or made.
type UpResult struct {
	Record *Record
	// AlreadyRunning is set when the cluster was there before; Record then has its options, not the caller's.
	AlreadyRunning bool
}

// Up makes sure that a cluster runs, independently of the calling process, and returns when it is ready. The command
// line supervisor has to end up in Supervise. When ctx ends or the calling process dies before that, everything that
// was started is stopped again.
func Up(ctx context.Context, o Options, supervisor []string) (*UpResult, error) {
	o, err := o.normalised()
	if err != nil {
		return nil, err
	}
	if _, err := EnsureBinaries(ctx, o.binaries(), o.Progress); err != nil {
		return nil, err
	}
	for {
		record, err := awaitOtherStarter(ctx, o)
		if err != nil {
			return nil, err
		}
		if record != nil {
			return &UpResult{Record: record, AlreadyRunning: true}, nil
		}
		err = startSupervisor(ctx, o, supervisor)
		if errors.Is(err, errLostRace) {
			continue
		}
		if err != nil {
			return nil, err
		}
		record, err = readRecord(o.StateDir)
		return &UpResult{Record: record}, err
	}
}

// awaitOtherStarter returns the record of a cluster that runs already, nothing when there is none, and waits for one
// that is on its way up or down.
func awaitOtherStarter(ctx context.Context, o Options) (*Record, error) {
	var found *Record
	told := false
	err := poll(ctx, readyTimeout+farewell, "another command keeps starting or stopping the cluster", func(context.Context) (bool, error) {
		held, err := lockHeld(filepath.Join(o.StateDir, lockFile))
		if err != nil {
			return false, err
		}
		if !held {
			return true, nil
		}
		record, err := readRecord(o.StateDir)
		if err != nil {
			return false, err
		}
		if record.Phase == PhaseReady && processExists(record.SupervisorPID) {
			found = record
			return true, nil
		}
		if !told {
			told = true
			_, _ = fmt.Fprintf(o.Progress, "waiting for another command that is starting or stopping cluster %s\n", o.Name)
		}
		return false, nil
	})
	return found, err
}

// startSupervisor starts a supervisor, waits until its cluster is ready and lets it go.
func startSupervisor(ctx context.Context, o Options, command []string) error {
	link, err := connectSupervisor(o, command)
	if err != nil {
		return err
	}
	outcome := make(chan error, 1)
	go func() { outcome <- link.converse(o) }()
	select {
	case err = <-outcome:
	case <-ctx.Done():
		_ = link.orders.Close() // the supervisor takes it for our death and stops everything
		err = errors.Join(context.Cause(ctx), link.awaitEnd())
		<-outcome
		return err
	}
	if err != nil {
		_ = link.orders.Close()
		return errors.Join(err, link.awaitEnd())
	}
	_ = link.orders.Close()
	return link.cmd.Process.Release()
}

// supervisorLink is the launcher's side of the conversation.
type supervisorLink struct {
	cmd     *exec.Cmd
	orders  *os.File
	reports *os.File
	log     string
}

// connectSupervisor starts the supervisor detached from the terminal, so that neither Ctrl-C nor the end of the terminal
// reaches it.
func connectSupervisor(o Options, command []string) (*supervisorLink, error) {
	if err := os.MkdirAll(filepath.Join(o.StateDir, logDirectory), 0o700); err != nil {
		return nil, fmt.Errorf("create state directory: %w", err)
	}
	link := &supervisorLink{log: filepath.Join(o.StateDir, logDirectory, "supervisor.log")}
	log, err := os.OpenFile(link.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of the supervisor: %w", err)
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect the supervisor: %w", err), log.Close())
	}
	reports, theirReports, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect the supervisor: %w", err), log.Close(), orders.Close(), theirOrders.Close())
	}
	link.orders, link.reports = orders, reports
	link.cmd = exec.Command(command[0], command[1:]...)
	link.cmd.Dir = o.StateDir
	link.cmd.Stdout, link.cmd.Stderr = log, log
	link.cmd.ExtraFiles = []*os.File{theirOrders, theirReports}
	link.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = link.cmd.Start()
	_ = errors.Join(theirOrders.Close(), theirReports.Close(), log.Close()) // the supervisor has its own copies
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the supervisor: %w", err), orders.Close(), reports.Close())
	}
	return link, nil
}

// converse passes the options, shows progress, and hands the cluster over once it is ready.
func (l *supervisorLink) converse(o Options) error {
	defer func() { _ = l.reports.Close() }()
	options, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode options: %w", err)
	}
	if _, err := l.orders.Write(append(options, '\n')); err != nil {
		return fmt.Errorf("instruct the supervisor: %w", err)
	}
	decoder := json.NewDecoder(bufio.NewReader(l.reports))
	for {
		var r report
		err := decoder.Decode(&r)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the supervisor ended without a word; its log %s ends with:\n%s", l.log, logTail(l.log, 0, lastWordsLines))
		case err != nil:
			return fmt.Errorf("listen to the supervisor: %w", err)
		case r.Running:
			return errLostRace
		case r.Error != "":
			return errors.New(r.Error)
		case r.Ready:
			if _, err := io.WriteString(l.orders, handOver); err != nil {
				return fmt.Errorf("let the supervisor go: %w", err)
			}
			return nil
		}
		_, _ = io.WriteString(o.Progress, r.Progress)
	}
}

// awaitEnd waits for the supervisor to stop its cluster and end. One that hangs is killed, and its children with it.
func (l *supervisorLink) awaitEnd() error {
	timer := time.AfterFunc(farewell, func() { _ = l.cmd.Process.Kill() })
	defer timer.Stop()
	var failed *exec.ExitError
	if err := l.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("wait for the supervisor: %w", err)
	}
	return nil // how it ended is in the report, or in what the caller knows anyway
}
