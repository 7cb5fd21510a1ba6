// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// OperatorComponent is the name under which an operator binary runs in the cluster.
const OperatorComponent = "operator"

// startAttempts bounds how often the cluster is moved to other ports when one turns out to be taken.
const startAttempts = 3

// ErrRunning says that another process runs a cluster in the same state directory.
var ErrRunning = errors.New("the cluster is running already")

// Cluster is a running control plane whose processes are children of this process.
type Cluster struct {
	opts     Options
	binaries Binaries
	lock     *fileLock
	pki      *pki
	prober   *prober
	spawner  *spawner
	hadLWS   bool // the state was last used with the LeaderWorkerSet controller

	stopOnce sync.Once
	stopErr  error

	// mu guards what follows.
	mu         sync.Mutex
	record     *Record
	components map[string]component
	processes  map[string]*process
	order      []string // names in the order they were started
	watchers   sync.WaitGroup
}

// Start runs a cluster and returns when everything in it is ready. The caller stops it with Stop; should the calling
// process die without doing so, the kernel ends every process of the cluster.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.normalised()
	if err != nil {
		return nil, err
	}
	binaries, err := EnsureBinaries(ctx, o.binaries(), o.Progress)
	if err != nil {
		return nil, err
	}
	c, err := open(ctx, o, binaries)
	if err != nil {
		return nil, err
	}
	if err := c.bringUp(ctx); err != nil {
		c.setPhase(PhaseFailed)
		return nil, errors.Join(err, c.shutDown())
	}
	return c, nil
}

// open takes possession of the state directory and prepares what components need to start.
func open(ctx context.Context, o Options, binaries Binaries) (*Cluster, error) {
	for _, dir := range []string{o.StateDir, filepath.Join(o.StateDir, logDirectory), filepath.Join(o.StateDir, "home")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create state directory: %w", err)
		}
	}
	lock, err := tryLock(filepath.Join(o.StateDir, lockFile))
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%s: %w", o.StateDir, ErrRunning)
	}
	if err != nil {
		return nil, err
	}
	// Before anything that takes time: whoever finds the lock held looks here for its holder.
	if err := writeFileAtomically(filepath.Join(o.StateDir, pidFile), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	c := &Cluster{
		opts: o, binaries: binaries, lock: lock,
		components: map[string]component{}, processes: map[string]*process{},
	}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	c.spawner = newSpawner()
	return c, nil
}

func (c *Cluster) prepare(ctx context.Context) error {
	previous, err := readRecord(c.opts.StateDir)
	if err != nil {
		return err
	}
	if err := awaitOrphans(ctx, previous, c.opts.StateDir); err != nil {
		return err
	}
	c.hadLWS = previous.Options.LWS
	c.record = &Record{
		Name: c.opts.Name, Phase: PhaseStarting, SupervisorPID: os.Getpid(), StartedAt: c.opts.Now().UTC(),
		Options: c.opts, Kubeconfig: kubeconfigPath(c.opts.StateDir, UserAdmin),
		Versions: map[string]string{}, Ports: previous.Ports, Users: previous.Users,
	}
	for _, a := range catalogue() {
		if _, used := c.binaries[a.name]; used {
			c.record.Versions[a.name] = a.version
		}
	}
	if c.opts.Audit {
		c.record.AuditLog = c.AuditLogPath()
		if err := writeFileAtomically(c.path("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
			return err
		}
	}
	if c.pki, err = openPKI(c.path("pki"), c.opts.Now()); err != nil {
		return err
	}
	c.prober, err = newProber(c.pki)
	return err
}

// bringUp starts everything, on other ports when one was taken between its choice and its use.
func (c *Cluster) bringUp(ctx context.Context) error {
	preferred := c.record.Ports
	for attempt := 1; ; attempt++ {
		ports, err := c.opts.choosePorts(preferred)
		if err != nil {
			return err
		}
		err = c.bringUpOn(ctx, ports)
		if err == nil || !errors.Is(err, errPortClash) || attempt == startAttempts {
			return err
		}
		c.say("a port was taken meanwhile, starting again on other ports")
		if err := c.stopProcesses(0); err != nil {
			return err
		}
		preferred = nil
	}
}

func (c *Cluster) bringUpOn(ctx context.Context, ports map[string]int) error {
	c.mu.Lock()
	c.record.Ports = ports
	c.record.Server = "https://" + loopback(ports[portAPIServer])
	err := errors.Join(c.issueUsers(c.record.Users), c.record.save(c.opts.StateDir))
	c.mu.Unlock()
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		c.startServers, c.startControllers, c.startNodes, c.startLWS, c.startOperator,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	c.setPhase(PhaseReady)
	return nil
}

func (c *Cluster) startServers(ctx context.Context) error {
	c.say("starting etcd and the API server")
	if err := c.run(ctx, c.etcdComponent()); err != nil {
		return err
	}
	if err := c.run(ctx, c.apiServerComponent()); err != nil {
		return err
	}
	return c.grantBuiltinUsers(ctx)
}

func (c *Cluster) startControllers(ctx context.Context) error {
	var wanted []component
	if c.opts.ControllerManager {
		wanted = append(wanted, c.controllerManagerComponent())
	}
	if c.opts.Scheduler {
		wanted = append(wanted, c.schedulerComponent())
	}
	if len(wanted) == 0 {
		return nil
	}
	c.say("starting the controllers of Kubernetes")
	return c.run(ctx, wanted...)
}

// Stop ends every process of the cluster and returns when they are gone. Further calls return the same result.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		// Only the first call says so: after it the state may belong to a successor.
		c.setPhase(PhaseStopped)
		c.stopErr = c.shutDownOnce()
	})
	return c.stopErr
}

func (c *Cluster) shutDown() error {
	c.stopOnce.Do(func() { c.stopErr = c.shutDownOnce() })
	return c.stopErr
}

func (c *Cluster) shutDownOnce() error {
	limit := serverGrace
	if c.opts.Throwaway {
		limit = 0
	}
	err := c.stopProcesses(limit)
	c.watchers.Wait()
	c.spawner.close()
	err = errors.Join(err, os.Remove(c.path(pidFile)))
	if !c.opts.Throwaway {
		return errors.Join(err, c.lock.release())
	}
	return errors.Join(err, removeState(c.opts.StateDir, c.lock))
}

// removeState deletes a state directory whose lock the caller holds. The lock goes last, so that a cluster starting in
// the same place either waits or finds nothing; should it have begun to fill the directory again, that stays.
func removeState(dir string, lock *fileLock) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return errors.Join(fmt.Errorf("remove state: %w", err), lock.release())
	}
	var problems []error
	for _, entry := range entries {
		if entry.Name() != lockFile {
			problems = append(problems, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	problems = append(problems, lock.releaseAndRemove())
	_ = os.Remove(dir) // fails only when somebody moved in already
	return errors.Join(problems...)
}

func (c *Cluster) setPhase(phase Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Phase = phase
	// A record that cannot be written must not keep a cluster from starting or stopping; status falls back on the lock.
	_ = c.record.save(c.opts.StateDir)
}

func (c *Cluster) say(line string) {
	_, _ = fmt.Fprintln(c.opts.Progress, line)
}
