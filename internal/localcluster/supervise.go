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
	"os/signal"
	"sync"
	"syscall"
)

// The supervisor is the process that owns a cluster started from the command line. Two pipes connect it with the command
// that launched it: orders carries the options and, at the end, the word that hands the cluster over; reports carries
// what the launcher shows. An end of orders before the hand-over means that the launcher is gone, in whatever way, and
// that nobody wants the cluster.

// Descriptors the launcher passes on; those below are the standard ones.
const (
	ordersDescriptor  = 3
	reportsDescriptor = 4
)

// handOver is the order that makes the cluster independent of its launcher.
const handOver = "hand over\n"

// report is one line from supervisor to launcher.
type report struct {
	Progress string `json:"progress,omitempty"`
	Error    string `json:"error,omitempty"`
	Running  bool   `json:"running,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
}

// errLauncherGone ends a cluster that nobody waits for.
var errLauncherGone = errors.New("the command that was starting the cluster is gone")

// Supervise runs a cluster on behalf of Up, in a process of its own, until it receives SIGTERM or SIGINT. The function
// before completes the options with what cannot travel between processes.
func Supervise(before func(*Options)) error {
	orders := os.NewFile(ordersDescriptor, "orders")
	reports := os.NewFile(reportsDescriptor, "reports")
	if orders == nil || reports == nil {
		return errors.New("the supervisor is started by the command up, not by hand")
	}
	lines := bufio.NewReader(orders)
	var o Options
	if err := readOrder(lines, &o); err != nil {
		return fmt.Errorf("read the options of the cluster: %w", err)
	}
	s := &supervisor{reports: reports, handedOver: make(chan struct{})}
	o.Progress = s
	before(&o)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	starting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.watchOrders(lines, cancel)

	cluster, err := Start(starting, o)
	if err != nil {
		s.send(report{Error: err.Error(), Running: errors.Is(err, ErrRunning)})
		return err
	}
	s.send(report{Ready: true})
	select {
	case <-s.handedOver:
	case <-starting.Done():
		return errors.Join(context.Cause(starting), cluster.Stop())
	}
	<-ctx.Done()
	return cluster.Stop()
}

func readOrder(lines *bufio.Reader, into any) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, into)
}

// supervisor is the supervisor's side of the conversation.
type supervisor struct {
	handedOver chan struct{}

	mu      sync.Mutex
	reports io.WriteCloser // nil once the launcher was let go
}

// watchOrders waits for the hand-over, or for the end of the launcher, which it turns into the end of the start.
func (s *supervisor) watchOrders(lines *bufio.Reader, cancel context.CancelCauseFunc) {
	order, err := lines.ReadString('\n')
	if err != nil || order != handOver {
		cancel(errLauncherGone)
		return
	}
	s.mu.Lock()
	_ = s.reports.Close()
	s.reports = nil
	s.mu.Unlock()
	close(s.handedOver)
}

// send passes a report on while there is a launcher. Its loss is noticed elsewhere, so a failed write is no matter.
func (s *supervisor) send(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reports == nil {
		return
	}
	if line, err := json.Marshal(r); err == nil {
		_, _ = s.reports.Write(append(line, '\n'))
	}
}

// Write makes the supervisor a progress writer: lines go to its own log and, while there is one, to the launcher.
func (s *supervisor) Write(text []byte) (int, error) {
	_, _ = os.Stderr.Write(text)
	s.send(report{Progress: string(text)})
	return len(text), nil
}
