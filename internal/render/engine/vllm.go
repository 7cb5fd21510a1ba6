// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	rayPort             = 6379
	vllmDataParallelRPC = 13445
)

// vllm spreads over nodes in one of two ways. One rank that needs more GPUs than a node has goes through Ray: the leader
// runs the engine, workers lend their GPUs. Several ranks that fit on nodes run everywhere and agree through the leader.
type vllm struct{}

func (e vllm) connect(n node) field.ErrorList {
	tensor, wide := n.size("--tensor-parallel-size", "-tp")
	pipeline, deep := n.size("--pipeline-parallel-size", "-pp")
	data, many := n.size("--data-parallel-size", "-dp")
	if !wide && !deep && !many {
		errs := e.unconnected(n, "set --tensor-parallel-size or --data-parallel-size, or remove multinode")
		if _, err := n.gpusFor(int(n.group.Nodes)); err != nil {
			errs = append(errs, err)
		}
		return errs
	}
	gpus, err := n.gpusFor(tensor * pipeline * data)
	if err != nil {
		return field.ErrorList{err}
	}
	// A size that cannot be read counts as 1, as it always has, unless nothing comes of it.
	world := max(tensor, 1) * max(pipeline, 1)
	all := gpus * int(n.group.Nodes)
	switch {
	case world > all:
		return field.ErrorList{field.Invalid(n.commandPath(), world, fmt.Sprintf(
			"tensor and pipeline parallel size take %d GPUs: %d nodes with %d each have %d", world, n.group.Nodes, gpus, all))}
	case world > gpus:
		return e.ray(n)
	case world*data > gpus:
		return e.dataParallel(n, gpus/world, data)
	case tensor*pipeline*data == 0:
		return e.unconnected(n, "write the parallel sizes as numbers")
	}
	// The user has chosen sizes that fit on one node: each node runs by itself, as it does elsewhere.
	return nil
}

func (vllm) unconnected(n node, way string) field.ErrorList {
	return field.ErrorList{field.Invalid(n.commandPath(), excerpt(n.line().words), "the nodes would run unconnected: "+way)}
}

// ray puts Ray in front of the engine, unless the user starts it himself.
func (vllm) ray(n node) field.ErrorList {
	if strings.Contains(strings.Join(n.line().words, " "), "ray start") {
		return nil
	}
	if n.group.Role == Worker {
		n.runInShell("/bin/sh", fmt.Sprintf("ray start --address=%s:%d --block", n.leaderHost(true), rayPort))
		return nil
	}
	head := fmt.Sprintf("ray start --head --port=%d", rayPort)
	backend := []option{{names: []string{"--distributed-executor-backend"}, value: "ray", fixed: true}}
	l := n.line()
	script := l.script()
	if script < 0 || l.isPython() || l.afterModule(n.framework) > script {
		missing, _ := n.missing(backend, true) // what comes last cannot be contradicted
		n.runInShell("/bin/sh", head+" && "+n.textWith(l, len(l.words), missing))
		return nil
	}
	l = l.withRest(script, variablesOf(n.main))
	missing, errs := n.missing(backend, false)
	if len(errs) > 0 {
		return errs
	}
	if len(missing) > 0 {
		text, ok := insert(l.words[script], n.framework, textOf(missing))
		if !ok {
			return n.lonely()
		}
		l.words[script] = text
	}
	if isChain(l.words[script]) {
		l.words[script] = head + " && " + l.words[script]
	} else {
		// Behind "&&" only the first of several commands would wait for Ray.
		l.words[script] = head + " || exit; " + l.words[script]
	}
	n.put(l)
	return nil
}

// dataParallel gives each node its share of the ranks. Whoever gives an address, and a rank that is not the same on every
// node, has wired them himself.
func (vllm) dataParallel(n node, local, ranks int) field.ErrorList {
	hybrid := []string{"--data-parallel-hybrid-lb", "-dph"}
	share := []string{"--data-parallel-size-local", "-dpl"}
	rank := []string{"--data-parallel-start-rank", "-dpr", "--data-parallel-rank", "-dpn"}
	address := []string{"--data-parallel-address", "-dpa"}
	port := []string{"--data-parallel-rpc-port", "-dpp"}

	fields := n.line().fields()
	if len(valuesOf(fields, address...)) > 0 && slices.ContainsFunc(valuesOf(fields, rank...), varies) {
		return nil
	}
	if given := valuesOf(fields, share...); len(given) > 0 && n.number(given[0]) > 0 {
		local = n.number(given[0])
	}
	if all := local * int(n.group.Nodes); all != ranks {
		return field.ErrorList{field.Invalid(n.commandPath(), ranks, fmt.Sprintf(
			"--data-parallel-size must be %d: %d nodes run %d ranks each", all, n.group.Nodes, local))}
	}
	return n.add(func(inShell bool) []option {
		first := "0"
		if n.group.Role == Worker {
			first = n.rankTimes(local)
		}
		return []option{
			{names: hybrid},
			{names: share, value: strconv.Itoa(local)},
			{names: rank, value: first, fixed: true},
			{names: address, value: n.leaderHost(inShell)},
			{names: port, value: strconv.Itoa(vllmDataParallelRPC)},
		}
	})
}
