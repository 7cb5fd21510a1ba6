// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/mockengine"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// defaultModel is what an engine serves that is not told what.
const defaultModel = "Qwen/Qwen3-0.6B"

// cacheTokens is how much an engine's cache holds if nobody says how many blocks it has.
const cacheTokens = 1 << 20

// lookup finds a variable of the environment of a command.
func (p program) lookup(name string) (string, bool) {
	for _, pair := range p.environ {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return value, true
		}
	}
	return "", false
}

// place is where a command runs, as the operator tells the pod.
type place struct {
	// pod, podNamespace and uid are those of Kubernetes.
	pod, podNamespace, uid string
	// namespace and component are those of Dynamo.
	namespace, component string
	kubernetes           bool
}

func (p program) place() place {
	get := func(name string) string {
		value, _ := p.lookup(name)
		return value
	}
	return place{
		pod: get("POD_NAME"), podNamespace: get("POD_NAMESPACE"), uid: get("POD_UID"),
		namespace: cmp.Or(get("DYN_NAMESPACE"), "dynamo"), component: get("DYN_COMPONENT"),
		kubernetes: get("DYN_DISCOVERY_BACKEND") == names.DiscoveryKubernetes,
	}
}

// check says what the pod was not told.
func (l place) check() error {
	if l.kubernetes && (l.pod == "" || l.podNamespace == "") {
		return errors.New("DYN_DISCOVERY_BACKEND is kubernetes: set POD_NAME and POD_NAMESPACE too, as the operator does")
	}
	return nil
}

// address is where a command listens: by flag, by one of some variables, or by default.
func (p program) address(c choices, fallback int, hostVariable string, portVariables ...string) (string, error) {
	host, _ := p.lookup(hostVariable)
	host = cmp.Or(c.first(settingHost), host)
	port := c.first(settingPort)
	for _, name := range portVariables {
		value, _ := p.lookup(name)
		port = cmp.Or(port, value)
	}
	if port == "" {
		return net.JoinHostPort(host, strconv.Itoa(fallback)), nil
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("port: %q is no port", port)
	}
	return net.JoinHostPort(host, port), nil
}

// workerOptions turns choices into a worker. Clock, log and publisher are the caller's.
func workerOptions(c choices, l place) (mockengine.WorkerOptions, error) {
	o := mockengine.WorkerOptions{
		Model:  cmp.Or(c.first(settingServedName), c.first(settingModel), defaultModel),
		Role:   role(c, l.component),
		Faults: &mockengine.Faults{},
		Engine: mockengine.EngineOptions{Limits: mockengine.DefaultLimits(), Timing: mockengine.DefaultTiming()},
	}
	o.Identity = mockengine.Identity{
		Instance: l.pod, Namespace: l.namespace, Component: cmp.Or(l.component, string(o.Role)),
	}
	limits := &o.Engine.Limits
	limits.Blocks = 0
	var seed int
	err := errors.Join(
		c.size(settingBlocks, &limits.Blocks), c.size(settingBlockSize, &limits.BlockSize), c.size(settingSequences, &limits.MaxSequences),
		c.size(settingBatch, &limits.MaxBatchedTokens), c.size(settingContext, &o.ContextLength), c.duration(settingStartup, &o.StartupTime),
		c.duration(settingGracePeriod, &o.Grace), c.number(settingSlots, &o.AdapterSlots), c.number(settingWaiting, &o.Engine.MaxWaiting),
		c.number(settingSeed, &seed), speedup(c, &o.Engine), engineClock(c, &o.Engine), endpoint(c, &o.Identity), faults(c, o.Faults),
	)
	if limits.Blocks == 0 {
		limits.Blocks = cacheTokens / limits.BlockSize
	}
	o.Faults.Seed(uint64(max(seed, 0)))
	return o, err
}

// role is the part of the work that a worker does: by its flags, or by the type of its component.
func role(c choices, component string) mockengine.Role {
	switch mode := c.first(settingMode); {
	case c.on(settingPrefill), mode == "prefill":
		return mockengine.RolePrefill
	case c.on(settingDecode), mode == "decode":
		return mockengine.RoleDecode
	case mode != "":
		return mockengine.RoleAggregated
	}
	switch component {
	case "prefill":
		return mockengine.RolePrefill
	case "decode":
		return mockengine.RoleDecode
	}
	return mockengine.RoleAggregated
}

func speedup(c choices, o *mockengine.EngineOptions) error {
	text := c.first(settingSpeedup)
	if text == "" {
		return nil
	}
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || ratio <= 0 {
		return fmt.Errorf("%s: %q is not a number above zero", settingSpeedup, text)
	}
	o.Speedup = ratio
	return nil
}

// engineClock chooses between waiting for tokens and making them at once.
func engineClock(c choices, o *mockengine.EngineOptions) error {
	switch text := c.first(settingClock); text {
	case "", "wall":
		return nil
	case "virtual":
		o.Clock = mockengine.NewVirtualClock(time.Unix(0, 0))
		return nil
	default:
		return fmt.Errorf("%s: %q is neither wall nor virtual", settingClock, text)
	}
}

// endpoint reads dyn://<namespace>.<component>.<endpoint>.
func endpoint(c choices, id *mockengine.Identity) error {
	text := c.first(settingEndpoint)
	if text == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(text, "dyn://"), ".")
	if len(parts) != 3 {
		return fmt.Errorf("%s: %q is not of the form dyn://namespace.component.endpoint", settingEndpoint, text)
	}
	id.Namespace, id.Component = parts[0], parts[1]
	return nil
}

func faults(c choices, into *mockengine.Faults) error {
	for _, text := range c[settingFault] {
		more, err := mockengine.ParseFaults(text)
		if err != nil {
			return err
		}
		into.Add(more...)
	}
	return nil
}
