// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// Variables that the orchestrators give to pods, and nobody else knows.
const (
	lwsLeader      = "LWS_LEADER_ADDRESS"
	lwsIndex       = "LWS_WORKER_INDEX"
	groveName      = "GROVE_PCSG_NAME"
	groveReplica   = "GROVE_PCSG_INDEX"
	groveSubdomain = "GROVE_HEADLESS_SERVICE"
	groveIndex     = "GROVE_PCLQ_POD_INDEX"
)

// placeVariables are those that tell a pod where it stands in its group.
func placeVariables() []string {
	return []string{lwsLeader, lwsIndex, groveReplica, groveSubdomain, groveIndex}
}

// ownVariables are those with which a user wires a node himself.
func (n node) ownVariables() []string {
	if n.group.Orchestrator == Grove {
		return []string{groveName, groveReplica, groveSubdomain, groveIndex}
	}
	return []string{lwsLeader, lwsIndex}
}

// leaderHost is the leader's host name. Grove puts it together from variables that the kubelet expands everywhere. Of
// LeaderWorkerSet there is one variable, which shell text has always named in the shell's way; in plain arguments only
// the kubelet expands it.
func (n node) leaderHost(inShell bool) string {
	switch {
	case n.group.Orchestrator == Grove:
		return groveHost(names.LeaderClique(n.component.Service()), 0)
	case inShell:
		return "$" + lwsLeader
	}
	return kubelet(lwsLeader)
}

// workerHosts are the host names of all workers, for shell text.
func (n node) workerHosts() []string {
	var hosts []string
	for i := range n.group.Nodes - 1 {
		if n.group.Orchestrator == Grove {
			hosts = append(hosts, groveHost(names.WorkerClique(n.component.Service()), i))
			continue
		}
		hosts = append(hosts, fmt.Sprintf(`$(echo "$%s" | sed 's/\./-%d\./')`, lwsLeader, i+1))
	}
	return hosts
}

// rank is a worker's number among the nodes, for shell text. The leader is number 0.
func (n node) rank() string {
	if n.group.Orchestrator == Grove {
		return "$((" + groveIndex + " + 1))" // Grove counts the workers of a clique from 0
	}
	return kubelet(lwsIndex)
}

// rankTimes is a worker's number times a factor, for shell text. The kubelet would take the index of LeaderWorkerSet
// for a part of a longer name if it stood in $(( $(NAME) )), so there the shell reads the variable itself.
func (n node) rankTimes(factor int) string {
	if n.group.Orchestrator == Grove {
		return fmt.Sprintf("$(( %d * %s ))", factor, n.rank())
	}
	return fmt.Sprintf("$((%d * %s))", factor, lwsIndex)
}

// groveHost is the name of one pod of a clique in the caller's own replica.
func groveHost(clique string, index int32) string {
	return fmt.Sprintf("%s-%s-%s-%d.%s", kubelet(groveName), kubelet(groveReplica), clique, index, kubelet(groveSubdomain))
}

// kubelet is a reference that the kubelet expands in command and args.
func kubelet(variable string) string { return "$(" + variable + ")" }
