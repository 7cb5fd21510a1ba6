// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortsOfAnEarlierRunAreKeptWhileTheyAreFree(t *testing.T) {
	t.Parallel()
	first, err := choosePorts(nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", loopback(first[portScheduler]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	second, err := choosePorts(first)
	if err != nil {
		t.Fatal(err)
	}
	if second[portScheduler] == first[portScheduler] {
		t.Error("a port in use was chosen")
	}
	delete(first, portScheduler)
	delete(second, portScheduler)
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("free ports changed (-first +second):\n%s", diff)
	}
}
