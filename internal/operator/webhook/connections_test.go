// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// opened is a connection of one and the same client that has asked for something.
func opened(t *testing.T, c *connections) (net.Conn, *http.Request) {
	t.Helper()
	conn, other := net.Pipe()
	t.Cleanup(func() { _, _ = conn.Close(), other.Close() })
	request := httptest.NewRequestWithContext(c.begin(t.Context(), conn), http.MethodPost, "/validate", http.NoBody)
	c.changed(conn, http.StateActive)
	if c.hasSurplus(request) {
		t.Fatal("a connection is closed though no other is idle")
	}
	return conn, request
}

func TestAConnectionInUseClosesNoOther(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := newConnections(now)
	used, _ := opened(t, c)
	_, request := opened(t, c)
	c.changed(used, http.StateIdle)
	if c.hasSurplus(request) {
		t.Error("a connection that was used a moment ago is one too many")
	}
	now.SetTime(now.Now().Add(surplusAfter))
	if !c.hasSurplus(request) {
		t.Error("an idle connection closes no other")
	}
	c.changed(used, http.StateActive)
	if c.hasSurplus(request) {
		t.Error("a connection that is in use is one too many")
	}
}
