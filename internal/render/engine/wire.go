// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/render/input"
)

// Orchestrator is what keeps the pods of a group together and tells each its place.
type Orchestrator int

// The orchestrators.
const (
	LeaderWorkerSet Orchestrator = iota
	Grove
)

// Role is the task of a pod in its group.
type Role int

// The roles. The leader serves; workers lend it their GPUs.
const (
	Leader Role = iota
	Worker
)

// Group is a pod's place among the nodes of one replica.
type Group struct {
	Orchestrator Orchestrator
	Role         Role
	Nodes        int32
	// SSHSecret is the name of the Secret with the MPI key pair.
	SSHSecret string
}

// rules are how the nodes of one engine find each other.
type rules interface {
	// connect rewrites the command line of a node, or says why it cannot.
	connect(n node) field.ErrorList
}

// node is one pod of a group while it is wired.
type node struct {
	main      *corev1.Container
	component input.Component
	framework string
	group     Group
}

// Wire rewrites the main container of one pod of a group, so that its engine finds the other nodes, and returns the
// volumes this takes. An engine the operator does not know is left alone, and so is a command line that the user has
// wired himself.
func Wire(main *corev1.Container, c input.Component, framework string, g Group) ([]corev1.Volume, field.ErrorList) {
	var engine rules
	switch framework {
	case v1alpha1.BackendFrameworkVLLM:
		engine = vllm{}
	case v1alpha1.BackendFrameworkSGLang:
		engine = sglang{}
	case v1alpha1.BackendFrameworkTRTLLM:
		engine = trtllm{}
	default:
		return nil, nil
	}
	n := node{main: main, component: c, framework: framework, group: g}
	if g.Role == Worker {
		// A worker serves nobody: what the probes ask for, its engine answers on the leader.
		main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = nil, nil, nil
	}
	var volumes []corev1.Volume
	if NeedsSSH(framework) {
		volumes = n.mountKeys()
	}
	if n.wiredByUser() {
		return volumes, nil
	}
	return volumes, engine.connect(n)
}

// NeedsSSH tells whether the nodes of an engine log in to each other.
func NeedsSSH(framework string) bool { return framework == v1alpha1.BackendFrameworkTRTLLM }

// wiredByUser tells whether the command line uses what only the orchestrator knows. Whoever does that has done the
// wiring, and flags from us would contradict his.
func (n node) wiredByUser() bool {
	words := slices.Concat(n.main.Command, n.main.Args)
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(placeVariables(), func(name string) bool { return strings.Contains(word, name) })
	})
}

// lonely is the text with which a node refuses a command line that cannot carry the engine's flags.
func (n node) lonely() field.ErrorList {
	const way = "the nodes cannot be connected through this command: start the engine as python3 -m dynamo."
	own := ", or wire it yourself by using " + strings.Join(n.ownVariables(), " and ") + " in the command"
	return field.ErrorList{field.Invalid(n.commandPath(), excerpt(n.line().words), way+n.framework+own)}
}

// commandPath is where the user wrote the command line.
func (n node) commandPath() *field.Path {
	path := n.component.Path.Child("extraPodSpec", "mainContainer")
	if extra := n.component.Spec.ExtraPodSpec; extra != nil && extra.MainContainer != nil {
		if user := extra.MainContainer; len(user.Args) == 0 && len(user.Command) > 0 {
			return path.Child("command")
		}
	}
	return path.Child("args")
}

// excerpt is the beginning of a command line, enough to recognise it in a message.
func excerpt(words []string) string {
	const enough = 80
	text := []rune(strings.Join(words, " "))
	if len(text) > enough {
		return string(text[:enough]) + "..."
	}
	return string(text)
}
