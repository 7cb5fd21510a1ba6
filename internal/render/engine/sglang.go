// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// sglangPort is where the leader waits for the other nodes.
const sglangPort = 29500

// sglang runs the same program on every node, which is told the leader's address, the number of nodes and its own.
type sglang struct{}

func (sglang) connect(n node) field.ErrorList {
	gpus, err := n.gpus()
	if err == nil && gpus == 0 && !n.hasDevices() {
		err = n.noGPUs()
	}
	if err != nil {
		return field.ErrorList{err}
	}
	return n.add(func(inShell bool) []option {
		rank := "0"
		if n.group.Role == Worker {
			rank = n.rank()
		}
		return []option{
			{names: []string{"--dist-init-addr", "--nccl-init-addr"}, value: fmt.Sprintf("%s:%d", n.leaderHost(inShell), sglangPort)},
			{names: []string{"--nnodes"}, value: strconv.Itoa(int(n.group.Nodes)), fixed: true},
			{names: []string{"--node-rank"}, value: rank, fixed: true},
		}
	})
}
