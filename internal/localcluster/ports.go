// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// errPortClash says that a component found its port taken.
var errPortClash = errors.New("a port was taken by another process")

// Keys of the ports a cluster uses.
const (
	portAPIServer         = "apiserver"
	portEtcdClient        = "etcd-client"
	portEtcdPeer          = "etcd-peer"
	portControllerManager = "controller-manager"
	portScheduler         = "scheduler"
	portKwok              = "kwok"
	portLWSWebhook        = "lws-webhook"
	portLWSHealth         = "lws-health"
	portOperatorHealth    = "operator-health"
	portOperatorMetrics   = "operator-metrics"
)

// The range lies below the one from which Linux serves outgoing connections, so that only other servers can clash.
const (
	lowestPort  = 20000
	highestPort = 32000
	portTries   = 200
)

// choosePorts returns a free port for each key, preferring those of an earlier run so that addresses survive a restart.
func choosePorts(previous map[string]int) (map[string]int, error) {
	ports, used := map[string]int{}, map[int]bool{}
	for _, key := range []string{
		portAPIServer, portEtcdClient, portEtcdPeer, portControllerManager, portScheduler, portKwok,
		portLWSWebhook, portLWSHealth, portOperatorHealth, portOperatorMetrics,
	} {
		port, err := freePort(previous[key], used)
		if err != nil {
			return nil, fmt.Errorf("find a port for %s: %w", key, err)
		}
		ports[key], used[port] = port, true
	}
	return ports, nil
}

func freePort(preferred int, used map[int]bool) (int, error) {
	if preferred != 0 && !used[preferred] && portFree(preferred) {
		return preferred, nil
	}
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		if !used[port] && portFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d on 127.0.0.1", lowestPort, highestPort)
}

func portFree(port int) bool {
	listener, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// loopback returns the address every component listens on.
func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
