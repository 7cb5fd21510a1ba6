// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout plans restarts of graphs and the replacement of groups: pure functions, no client, no clock.
//
// Plans rest on what is seen of the children, not on what an earlier plan said. So a status that was lost, or a write
// that failed, neither repeats a step nor skips one; only that a restart ended has to be remembered.
package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// maxNamed is how many services a note names before it only counts the rest.
const maxNamed = 3

// Seen is what is known of the child of one service. It may be older than the cluster, but not older than the caller's
// own writes: services that wait keep the token that was seen, and an outdated one would undo what was told last.
type Seen struct {
	// Token is the restart id that the child carries, empty for none.
	Token string
	// Done tells that every pod of the service carries Token, is of the child's latest generation, and is ready. A
	// service that wants no pods is done.
	Done bool
}

// restarted tells whether every pod was replaced for the restart and is back. Readiness without the token says nothing:
// before a service is told, all of it is ready.
func (s Seen) restarted(id string) bool { return s.Token == id && s.Done }

// Restart is a plan: what to report and whom to tell.
type Restart struct {
	// Status is what status.restart becomes.
	Status *v1alpha1.RestartStatus
	// Tokens are the restart ids that children should carry, by service. Those without an entry carry none.
	Tokens map[string]string
	// Note says in one sentence where the restart is; empty when there is none.
	Note string
}

// Next plans the next step of a restart. Services are the names of the graph's services; seen lacks those whose child
// does not exist. With the status it returned and the same children it returns the same plan again.
func Next(spec *v1alpha1.Restart, services []string, was *v1alpha1.RestartStatus, seen map[string]Seen) Restart {
	asked := spec != nil && spec.ID != ""
	switch {
	case ended(was) && (!asked || spec.ID == was.ObservedID):
		return kept(services, was, seen)
	case !asked && was != nil:
		return Restart{Tokens: carried(services, seen), Note: fmt.Sprintf("restart %s: withdrawn", was.ObservedID)}
	case !asked:
		return Restart{Tokens: carried(services, seen)}
	}
	return advance(spec, services, seen)
}

// advance takes a restart as far as what is seen allows.
func advance(spec *v1alpha1.Restart, services []string, seen map[string]Seen) Restart {
	order := sequence(spec.Strategy, services)
	left := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return seen[name].restarted(spec.ID) })
	plan := Restart{Tokens: carried(services, seen)}
	if len(left) == 0 {
		plan.Status = &v1alpha1.RestartStatus{ObservedID: spec.ID, Phase: v1alpha1.RestartPhaseCompleted}
		plan.Note = ending(plan.Status)
		return plan
	}
	now := left
	if !parallel(spec.Strategy) {
		now = turn(left, spec.ID, seen)
	}
	for _, name := range left {
		// A child that is made with the id has no pods to replace, so it need not wait and be restarted later.
		if _, exists := seen[name]; !exists || slices.Contains(now, name) {
			plan.Tokens[name] = spec.ID
		}
	}
	plan.Status = &v1alpha1.RestartStatus{ObservedID: spec.ID, Phase: v1alpha1.RestartPhaseRestarting, InProgress: now}
	plan.Note = fmt.Sprintf("restart %s: waiting for %s (%d of %d done)", spec.ID, enumerate(now), len(order)-len(left), len(order))
	return plan
}

// turn returns whose turn it is in a sequential restart. Whoever was told comes first, wherever the order has it now:
// nobody may go down before they are back. There are several of them only after a change of strategy, when children
// were made with the id, or when a service that was back is unready again.
func turn(left []string, id string, seen map[string]Seen) []string {
	told := slices.DeleteFunc(slices.Clone(left), func(name string) bool { return seen[name].Token != id })
	if len(told) > 0 {
		return told
	}
	return left[:1]
}

// sequence is the order of a restart: as asked for, then the services that the request does not name, sorted. A request
// that is older than a service must not leave it out.
func sequence(strategy *v1alpha1.RestartStrategy, services []string) []string {
	unnamed := slices.Sorted(slices.Values(services))
	if strategy == nil || parallel(strategy) {
		return unnamed
	}
	var order []string
	for _, name := range strategy.Order {
		if i, ok := slices.BinarySearch(unnamed, name); ok {
			order = append(order, name)
			unnamed = slices.Delete(unnamed, i, i+1)
		}
	}
	return append(order, unnamed...)
}

func parallel(strategy *v1alpha1.RestartStrategy) bool {
	return strategy != nil && strategy.Type == v1alpha1.RestartStrategyTypeParallel
}

// ended tells whether a status is of a restart that will not move any more.
func ended(was *v1alpha1.RestartStatus) bool {
	return was != nil && (was.Phase == v1alpha1.RestartPhaseCompleted || was.Phase == v1alpha1.RestartPhaseFailed)
}

// kept is the plan after a restart ended. All services were told of a completed one, and new ones are made with its id;
// after a failed one nobody is told anything more.
func kept(services []string, was *v1alpha1.RestartStatus, seen map[string]Seen) Restart {
	plan := Restart{Status: was.DeepCopy(), Tokens: carried(services, seen), Note: ending(was)}
	if was.Phase != v1alpha1.RestartPhaseCompleted || was.ObservedID == "" {
		return plan
	}
	for _, name := range services {
		plan.Tokens[name] = was.ObservedID
	}
	return plan
}

// carried are the tokens that children have. To take one away would replace pods just like giving one.
func carried(services []string, seen map[string]Seen) map[string]string {
	tokens := map[string]string{}
	for _, name := range services {
		if token := seen[name].Token; token != "" {
			tokens[name] = token
		}
	}
	return tokens
}

func ending(status *v1alpha1.RestartStatus) string {
	return fmt.Sprintf("restart %s: %s", status.ObservedID, strings.ToLower(string(status.Phase)))
}

// enumerate names the first few, so that a note does not grow with the graph.
func enumerate(all []string) string {
	if len(all) <= maxNamed {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:maxNamed], ", "), len(all)-maxNamed)
}
