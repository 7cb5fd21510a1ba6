// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// run starts components at the same time and waits until each of them is well.
func (c *Cluster) run(ctx context.Context, wanted ...component) error {
	started := make([]*process, len(wanted))
	for i, w := range wanted {
		if w.prepare != nil {
			if err := w.prepare(ctx); err != nil {
				return fmt.Errorf("prepare %s: %w", w.name, err)
			}
		}
		proc, err := c.launch(w)
		if err != nil {
			return err
		}
		started[i] = proc
	}
	failures := make([]error, len(wanted))
	var waiting sync.WaitGroup
	for i, w := range wanted {
		waiting.Go(func() { failures[i] = c.prober.await(ctx, started[i], w.probe) })
	}
	waiting.Wait()
	return errors.Join(failures...)
}

// launch starts one component and has its end recorded.
func (c *Cluster) launch(w component) (*process, error) {
	env := w.env
	if env == nil {
		env = c.environment()
	}
	spec := processSpec{
		name: w.name, path: w.path, args: w.args, env: env, dir: c.opts.StateDir,
		logPath: c.path(logDirectory, w.name+".log"),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	proc, err := c.spawner.launch(spec)
	if err != nil {
		return nil, err
	}
	c.components[w.name], c.processes[w.name] = w, proc
	if !slices.Contains(c.order, w.name) {
		c.order = append(c.order, w.name)
	}
	*c.record.component(w.name) = ComponentRecord{
		Name: w.name, PID: proc.pid(), Log: spec.logPath, Address: w.address, Probe: w.probe,
	}
	c.watchers.Go(func() { c.recordEnd(proc) })
	return proc, c.record.save(c.opts.StateDir)
}

// recordEnd waits for a process and notes how it ended. Nothing is restarted: a component that dies in a test bed is a
// finding, and hiding it would hide the cause.
func (c *Cluster) recordEnd(proc *process) {
	<-proc.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.processes[proc.name] != proc {
		return // started again in the meantime
	}
	entry := c.record.component(proc.name)
	entry.PID, entry.Exit, entry.Crashed = 0, proc.verdict(), !proc.expected.Load()
	if entry.Crashed {
		c.say(fmt.Sprintf("%s ended unexpectedly (%s), see %s", proc.name, proc.verdict(), proc.logPath))
	}
	_ = c.record.save(c.opts.StateDir)
}

// find returns the component of that name and its process.
func (c *Cluster) find(name string) (component, *process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	proc, ok := c.processes[name]
	if !ok {
		return component{}, nil, fmt.Errorf("the cluster runs no component %q", name)
	}
	return c.components[name], proc, nil
}

// Kill ends a component as a power failure would, and returns when it is gone.
func (c *Cluster) Kill(name string) error {
	_, proc, err := c.find(name)
	if err != nil {
		return err
	}
	return proc.stop(0)
}

// Signal sends a signal to a component, for example SIGSTOP to make it hang.
func (c *Cluster) Signal(name string, sig os.Signal) error {
	_, proc, err := c.find(name)
	if err != nil {
		return err
	}
	if sig == syscall.SIGTERM || sig == syscall.SIGKILL || sig == os.Interrupt {
		proc.expected.Store(true)
	}
	return proc.signal(sig)
}

// Restart ends a component if it runs, starts it again with the same arguments and returns when it is well.
func (c *Cluster) Restart(ctx context.Context, name string) error {
	w, proc, err := c.find(name)
	if err != nil {
		return err
	}
	if err := proc.stop(w.grace); err != nil {
		return err
	}
	return c.run(ctx, w)
}

// ProcessOptions say how to run a further process, such as an operator under test.
type ProcessOptions struct {
	Name string
	Path string
	Args []string
	// Env is the whole environment; nil means a minimal one.
	Env []string
	// ReadyURL is asked over plain HTTP until it answers 200; empty means that the process is ready at once.
	ReadyURL string
}

// StartProcess runs a further process that ends with the cluster and can be killed and restarted by its name.
func (c *Cluster) StartProcess(ctx context.Context, o ProcessOptions) error {
	c.mu.Lock()
	existing := c.processes[o.Name]
	c.mu.Unlock()
	if existing != nil && existing.running() {
		return fmt.Errorf("the cluster runs a process %q already", o.Name)
	}
	return c.run(ctx, component{
		name: o.Name, path: o.Path, args: o.Args, env: o.Env, probe: Probe{URL: o.ReadyURL}, grace: clientGrace,
	})
}

// LogPath returns the file that the output of a component goes to.
func (c *Cluster) LogPath(name string) string {
	return c.path(logDirectory, name+".log")
}

// PID returns the process id of a component that runs, for those who measure it.
func (c *Cluster) PID(name string) (int, error) {
	_, proc, err := c.find(name)
	if err != nil {
		return 0, err
	}
	if !proc.running() {
		return 0, fmt.Errorf("%s has ended (%s)", name, proc.verdict())
	}
	return proc.pid(), nil
}

// Exited returns a channel that is closed when the current process of the component has ended.
func (c *Cluster) Exited(name string) (<-chan struct{}, error) {
	_, proc, err := c.find(name)
	if err != nil {
		return nil, err
	}
	return proc.ended, nil
}

// stopProcesses ends everything: first those that only talk to the API server, then the API server, then etcd. No
// component gets more time than limit.
func (c *Cluster) stopProcesses(limit time.Duration) error {
	c.mu.Lock()
	names := slices.Clone(c.order)
	c.mu.Unlock()
	servers := []string{APIServer, Etcd}
	clients := slices.DeleteFunc(names, func(name string) bool { return slices.Contains(servers, name) })
	return errors.Join(c.stopTogether(clients, limit), c.stopTogether(servers[:1], limit), c.stopTogether(servers[1:], limit))
}

func (c *Cluster) stopTogether(names []string, limit time.Duration) error {
	failures := make([]error, len(names))
	var stopping sync.WaitGroup
	for i, name := range names {
		w, proc, err := c.find(name)
		if err != nil {
			continue // never started
		}
		stopping.Go(func() { failures[i] = proc.stop(min(w.grace, limit)) })
	}
	stopping.Wait()
	return errors.Join(failures...)
}
