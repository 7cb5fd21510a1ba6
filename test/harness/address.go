// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports lie below those from which Linux serves outgoing connections: one of these may take a port between its choice
// and its use. They also lie below those of local clusters.
const (
	lowestPort  = 10000
	highestPort = 19999
	portTries   = 200
)

// given are the ports that this process handed out: who got one may not listen yet.
var given sync.Map

// UnusedAddress returns an address of this machine at which nobody listens.
func UnusedAddress(t testing.TB) string {
	t.Helper()
	for range portTries {
		port := lowestPort + rand.IntN(highestPort-lowestPort+1)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := listener.Close(); err == nil {
			return listener.Addr().String()
		}
	}
	t.Fatalf("no unused port between %d and %d on 127.0.0.1", lowestPort, highestPort)
	return ""
}
