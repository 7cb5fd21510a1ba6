// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/mockengine/kubediscovery"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

const (
	// askEvery is how often a front end without Kubernetes asks workers what they serve, askTimeout how long they may take.
	askEvery   = 500 * time.Millisecond
	askTimeout = 2 * time.Second
)

// worker simulates a worker of any engine.
func (p program) worker(ctx context.Context, args []string) int {
	c, ignored := parseFlags(args, workerFlags())
	if len(ignored) > 0 {
		p.log.Info("Flags without a meaning in a simulation were ignored", "flags", ignored)
	}
	c = c.withEnvironment(p.lookup)
	if rank := c.first(settingRank); rank != "" && rank != "0" || c.on(settingHeadless) {
		return p.idle(ctx, "a worker that another node leads")
	}
	if err := p.serveWorker(ctx, c); err != nil {
		return p.complain(exitProblem, "mocker worker: %v", err)
	}
	return exitFine
}

func (p program) serveWorker(ctx context.Context, c choices) error {
	l := p.place()
	if err := l.check(); err != nil {
		return err
	}
	o, err := workerOptions(c, l)
	if err != nil {
		return err
	}
	address, err := p.address(c, names.PortSystemNumber, "DYN_SYSTEM_HOST", "DYN_SYSTEM_PORT")
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // only a name for people where there is no pod
	o.Identity.Instance = cmp.Or(o.Identity.Instance, host)
	o.Clock, o.Log = clock.RealClock{}, p.log.WithName("worker")
	if l.kubernetes {
		d, err := kubernetes(l)
		if err != nil {
			return err
		}
		if o.Publisher, err = d.Publisher(l.pod, types.UID(l.uid)); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	o.Log.Info("Worker started", "address", listener.Addr().String(), "model", o.Model, "role", o.Role, "published", l.kubernetes)
	return mockengine.NewWorker(o).Serve(ctx, listener)
}

// frontend simulates the front end.
func (p program) frontend(ctx context.Context, args []string) int {
	c, ignored := parseFlags(args, frontendFlags())
	if len(ignored) > 0 {
		p.log.Info("Flags without a meaning in a simulation were ignored", "flags", ignored)
	}
	if err := p.serveFrontend(ctx, c.withEnvironment(p.lookup)); err != nil {
		return p.complain(exitProblem, "mocker frontend: %v", err)
	}
	return exitFine
}

func (p program) serveFrontend(ctx context.Context, c choices) error {
	l := p.place()
	address, err := p.address(c, names.PortHTTPNumber, "DYN_HTTP_HOST", "DYN_HTTP_PORT", "DYNAMO_PORT")
	if err != nil {
		return err
	}
	lookup, err := mockengine.ParseAddressMap(c.first(settingAddressMap))
	if err != nil {
		return err
	}
	o := mockengine.FrontendOptions{
		Namespace: c.first(settingNamespace), Client: mockengine.NewClient(mockengine.MapAddresses(lookup)),
		Clock: clock.RealClock{}, Log: p.log.WithName("frontend"),
	}
	if err := c.duration(settingGracePeriod, &o.Grace); err != nil {
		return err
	}
	if o.Discovery, err = discovery(c, l, o); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	o.Log.Info("Front end started", "address", listener.Addr().String(), "namespace", o.Namespace)
	return mockengine.NewFrontend(o).Serve(ctx, listener)
}

// discovery is how a front end finds workers: those it was told of, or those that Kubernetes knows.
func discovery(c choices, l place, o mockengine.FrontendOptions) (mockengine.Discovery, error) {
	if workers := c.first(settingWorkers); workers != "" || !l.kubernetes {
		asking := *o.Client
		asking.Timeout = askTimeout
		hosts := strings.FieldsFunc(workers, func(r rune) bool { return r == ',' || r == ' ' })
		return mockengine.Addresses{Hosts: hosts, Every: askEvery, Clock: o.Clock, Client: &asking}, nil
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	return kubernetes(l)
}

// kubernetes connects as the account of the pod, or as whoever KUBECONFIG says.
func kubernetes(l place) (*kubediscovery.Discovery, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	return kubediscovery.New(config, l.podNamespace)
}
