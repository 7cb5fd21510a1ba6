// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Options say what cluster to run. The zero value with a StateDir is etcd and an API server.
type Options struct {
	// Name identifies the cluster among those of one user.
	Name string `json:"name"`
	// StateDir is where the cluster keeps everything; empty means the place StateDir(Name) names.
	StateDir string `json:"stateDir"`
	// Nodes simulated nodes with GPUs graphics cards each are created.
	Nodes int `json:"nodes"`
	GPUs  int `json:"gpus"`

	ControllerManager bool `json:"controllerManager"`
	Scheduler         bool `json:"scheduler"`
	// LWS runs the LeaderWorkerSet controller with its webhooks; it needs ControllerManager for its StatefulSets.
	LWS bool `json:"lws"`
	// OldLWS runs the oldest release of that controller that is supported.
	OldLWS bool `json:"oldLWS,omitempty"`
	// OldAPIServer runs the API server of the oldest minor of Kubernetes that is tested.
	OldAPIServer bool `json:"oldAPIServer,omitempty"`
	// Audit records every request to the API server in the file AuditLogPath names.
	Audit bool `json:"audit"`
	// Fsync makes etcd survive a crash of the machine, at the price of waiting for the disk on every write.
	Fsync bool `json:"fsync"`
	// Throwaway state is removed by Stop, so nothing has to end gracefully.
	Throwaway bool `json:"throwaway,omitempty"`

	// Further arguments of components; they come last and so override what this package sets.
	APIServerArgs         []string `json:"apiServerArgs,omitempty"`
	ControllerManagerArgs []string `json:"controllerManagerArgs,omitempty"`
	SchedulerArgs         []string `json:"schedulerArgs,omitempty"`

	// Operator is started once the rest is ready, if it is set.
	Operator *OperatorOptions `json:"operator,omitempty"`

	// BeforeOperator prepares the cluster for the operator, for example by installing its CRDs.
	BeforeOperator func(context.Context, *Cluster) error `json:"-"`
	// Progress receives one line per step.
	Progress io.Writer `json:"-"`
	// Now is the clock; nil means the machine's.
	Now func() time.Time `json:"-"`

	// choosePorts can be replaced by tests that want a clash.
	choosePorts func(previous map[string]int) (map[string]int, error)
}

// OperatorOptions say how to run an operator binary as part of the cluster.
type OperatorOptions struct {
	Path string `json:"path"`
	// Args come after those that put its listeners on free ports of 127.0.0.1.
	Args []string `json:"args,omitempty"`
	// Role is what the operator may do; nil means everything.
	Role *rbacv1.ClusterRole `json:"role,omitempty"`
	// Digest is the Fingerprint the operator was started with. Start fills it in.
	Digest string `json:"digest,omitempty"`
}

// normalised returns the options with every default filled in, or says what is wrong with them.
func (o Options) normalised() (Options, error) {
	if o.Name == "" {
		o.Name = "default"
	}
	if o.StateDir == "" {
		dir, err := StateDir(o.Name)
		if err != nil {
			return o, err
		}
		o.StateDir = dir
	}
	dir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return o, fmt.Errorf("state directory: %w", err)
	}
	o.StateDir = dir
	if o.Nodes < 0 || o.GPUs < 0 {
		return o, errors.New("the number of nodes and of GPUs cannot be negative")
	}
	if o.LWS && !o.ControllerManager {
		return o, errors.New("the LeaderWorkerSet controller needs the controller manager; switch both on")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.choosePorts == nil {
		o.choosePorts = choosePorts
	}
	o.Progress = writerOrDiscard(o.Progress)
	err = o.checkOperator()
	return o, err
}

// checkOperator refuses an operator that cannot be started before minutes are spent on starting everything else. It
// also makes the path absolute, because the supervisor works in another directory.
func (o *Options) checkOperator() error {
	if o.Operator == nil {
		return nil
	}
	operator := *o.Operator // the caller's value stays as it is
	o.Operator = &operator
	path, err := filepath.Abs(o.Operator.Path)
	if err != nil {
		return fmt.Errorf("operator binary: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("operator binary: %w", err)
	}
	if info.IsDir() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("operator binary %s is not an executable file", path)
	}
	o.Operator.Path = path
	return nil
}

// lws is the LeaderWorkerSet controller that the options call for.
func (o Options) lws() string {
	if o.OldLWS {
		return OldLWS
	}
	return LWS
}

// apiServer is the API server that the options call for.
func (o Options) apiServer() string {
	if o.OldAPIServer {
		return OldAPIServer
	}
	return APIServer
}

// binaries lists the components the options call for.
func (o Options) binaries() []string {
	names := []string{Etcd, o.apiServer()}
	for _, choice := range []struct {
		wanted bool
		name   string
	}{
		{o.ControllerManager, ControllerManager},
		{o.Scheduler, Scheduler},
		{o.Nodes > 0, Kwok},
		{o.LWS && !o.OldLWS, LWS},
		{o.LWS && o.OldLWS, OldLWS},
	} {
		if choice.wanted {
			names = append(names, choice.name)
		}
	}
	return names
}
