// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Status is what can be said about a cluster from outside.
type Status struct {
	Running bool `json:"running"`
	*Record
	Health []ComponentHealth `json:"health"`
	Nodes  []NodeStatus      `json:"nodes"`
	// NodesError says why Nodes is empty although there may be some.
	NodesError string `json:"nodesError,omitempty"`
}

// ComponentHealth is the answer of one component.
type ComponentHealth struct {
	Name    string `json:"name"`
	PID     int    `json:"pid,omitempty"`
	Healthy bool   `json:"healthy"`
	// Detail says what is wrong.
	Detail  string `json:"detail,omitempty"`
	Address string `json:"address,omitempty"`
}

// NodeStatus is one node of the cluster.
type NodeStatus struct {
	Name  string `json:"name"`
	Ready bool   `json:"ready"`
	GPUs  int64  `json:"gpus"`
}

// Healthy reports whether every component is well.
func (s *Status) Healthy() bool {
	for _, h := range s.Health {
		if !h.Healthy {
			return false
		}
	}
	return s.Running
}

// ReadStatus asks the cluster in stateDir how it is. It reports ErrNotRunning when there is none.
func ReadStatus(ctx context.Context, stateDir string) (*Status, error) {
	held, err := lockHeld(filepath.Join(stateDir, lockFile))
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, ErrNotRunning
	}
	record, err := readRecord(stateDir)
	if err != nil {
		return nil, err
	}
	status := &Status{Running: true, Record: record}
	keys, err := loadPKI(filepath.Join(stateDir, "pki"))
	if err != nil {
		return status, nil //nolint:nilerr // the supervisor is still making its certificates; there is nothing to ask yet
	}
	prober, err := newProber(keys)
	if err != nil {
		return nil, err
	}
	for _, component := range record.Components {
		status.Health = append(status.Health, prober.health(ctx, component))
	}
	status.Nodes, err = listNodes(ctx, record)
	if err != nil {
		status.NodesError = err.Error()
	}
	return status, nil
}

// Kubeconfig returns the path of the kubeconfig of user in the cluster in stateDir, which need not run.
func Kubeconfig(stateDir, user string) (string, error) {
	record, err := readRecord(stateDir)
	if err != nil {
		return "", err
	}
	if record.Name == "" {
		return "", fmt.Errorf("no cluster was started in %s yet: %w", stateDir, ErrNotRunning)
	}
	path, err := record.kubeconfig(user)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("kubeconfig of user %s: %w", user, err)
	}
	return path, nil
}

// CheckComponent says how a component of the cluster in stateDir has ended, or nothing while it runs.
func CheckComponent(stateDir, name string) error {
	record, err := readRecord(stateDir)
	if err != nil {
		return err
	}
	for _, c := range record.Components {
		if c.Name == name && c.Exit != "" {
			return fmt.Errorf("%s has ended (%s), see %s", name, c.Exit, c.Log)
		}
	}
	return nil
}

func (p *prober) health(ctx context.Context, c ComponentRecord) ComponentHealth {
	health := ComponentHealth{Name: c.Name, PID: c.PID, Address: c.Address}
	switch {
	case c.Crashed:
		health.Detail = fmt.Sprintf("ended unexpectedly (%s), see %s", c.Exit, c.Log)
	case c.Exit != "":
		health.Detail = fmt.Sprintf("was stopped (%s)", c.Exit)
	case !processExists(c.PID):
		health.Detail = "is gone, see " + c.Log
	default:
		err := p.check(ctx, c.Probe)
		health.Healthy = err == nil
		if err != nil {
			health.Detail = err.Error()
		}
	}
	return health
}

func listNodes(ctx context.Context, record *Record) ([]NodeStatus, error) {
	if record.Options.Nodes == 0 {
		return nil, nil
	}
	config, err := LoadRESTConfig(record.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = probeTimeout
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	nodes, err := api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var list []NodeStatus
	for _, node := range nodes.Items {
		gpus := node.Status.Allocatable[gpuResource]
		list = append(list, NodeStatus{Name: node.Name, Ready: nodeReady(&node), GPUs: gpus.Value()})
	}
	return list, nil
}

// loadPKI opens the authorities of a running cluster without changing them.
func loadPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	var err, problems error
	p.cluster, err = loadAuthority(p.certFile(clusterAuthority), p.keyFile(clusterAuthority))
	problems = errors.Join(problems, err)
	p.etcd, err = loadAuthority(p.certFile(etcdAuthority), p.keyFile(etcdAuthority))
	problems = errors.Join(problems, err)
	return p, problems
}
