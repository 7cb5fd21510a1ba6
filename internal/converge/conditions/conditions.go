// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions is the vocabulary of status: which conditions exist, how they are set without flapping, and how a
// sentence about many things stays short and stable.
package conditions

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// Reasons of a DynamoGraphDeployment. Their lower-case form is the contract's.
const (
	AllResourcesReady      = "all_resources_are_ready"
	SomeResourcesNotReady  = "some_resources_are_not_ready"
	ReconcileFailed        = "failed_to_reconcile_the_resources"
	AllServicesAvailable   = "AllServicesAvailable"
	SomeServicesNotServing = "SomeServicesUnavailable"
)

// Reasons of a DynamoComponentDeployment.
const (
	DeploymentReady    = "DeploymentReady"
	DeploymentNotReady = "DeploymentNotReady"
	GroupsReady        = "AllLeaderWorkerSetsReady"
	GroupsNotReady     = "SomeLeaderWorkerSetsNotReady"
	Reconciling        = "Reconciling"
)

// Reasons of a DynamoGraphDeploymentScalingAdapter, of which the contract has the two that are also events.
const (
	Scaled          = "Scaled"
	UpdateFailed    = "UpdateFailed"
	GraphNotFound   = "GraphNotFound"
	ServiceNotFound = "ServiceNotFound"
	HasOtherAdapter = "ServiceHasAnotherAdapter"
)

// Reasons of a DynamoModel. All but the last are the contract's.
const (
	ServicesFound       = "ServicesFound"
	NoServicesFound     = "NoServicesFound"
	AllEndpointsReady   = "AllEndpointsReady"
	EndpointsDiscovered = "EndpointsDiscovered"
	EndpointsNotReady   = "NotReady"
	NoEndpoints         = "NoEndpoints"
	ModelNameTaken      = "ModelNameTaken"
)

// Reasons of events about what an object leaves behind. The first is also the contract's for models.
const (
	CleanupFailed    = "CleanupFailed"
	CleanupAbandoned = "CleanupAbandoned"
)

// ComponentStalled is why a graph is stalled that has nothing wrong with it itself.
const ComponentStalled = "ComponentStalled"

// Reasons shared by kinds.
const (
	PausedByAnnotation = "PausedByAnnotation"
	HostTaken          = "HostTaken"
	ChangedByOthers    = "ChangedByOthers"

	ValidationPassed = "ValidationPassed"
	ValidationFailed = "ValidationFailed"
	ReconcileError   = "ReconcileError"
)

// maxMessage keeps a condition readable in a terminal; the schema would allow 32768 bytes.
const maxMessage = 1024

// maxNamed is how many things a message names before it only counts the rest.
const maxNamed = 3

// Set collects the conditions of one status. It starts empty: a condition that is not put again is gone.
type Set struct {
	generation int64
	now        metav1.Time
	previous   []metav1.Condition
	current    []metav1.Condition
}

// NewSet starts the conditions of a status for the given generation. Transition times are taken from previous where the
// status of a condition did not change.
func NewSet(generation int64, previous []metav1.Condition, now metav1.Time) *Set {
	return &Set{generation: generation, previous: previous, now: now.Rfc3339Copy()}
}

// Put sets one condition.
func (s *Set) Put(kind string, status metav1.ConditionStatus, reason, message string) {
	next := metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: clip(message),
		ObservedGeneration: s.generation, LastTransitionTime: s.now,
	}
	if was := Find(s.previous, kind); was != nil && was.Status == status {
		next.LastTransitionTime = was.LastTransitionTime
	}
	s.current = append(s.current, next)
}

// Stall says that nothing will happen until somebody does something: changes the spec, or removes what is in the way.
// Tools that wait for objects give up on it. The condition is there only while it is true.
func (s *Set) Stall(reason, message string) {
	s.Put(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
}

// Keep carries a condition over from the previous status, for what this pass could not judge.
func (s *Set) Keep(kind string) {
	if was := Find(s.previous, kind); was != nil {
		s.current = append(s.current, *was)
	}
}

// Sorted returns the conditions in the order of their types. It is never nil: a status with no condition says so.
func (s *Set) Sorted() []metav1.Condition {
	out := append([]metav1.Condition{}, s.current...)
	slices.SortFunc(out, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return out
}

// Find returns the condition of a type, nil when there is none.
func Find(all []metav1.Condition, kind string) *metav1.Condition {
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}

// IsTrue tells whether a condition of the type exists and is True.
func IsTrue(all []metav1.Condition, kind string) bool {
	c := Find(all, kind)
	return c != nil && c.Status == metav1.ConditionTrue
}

// Transitioned tells whether something other than the wording changed: a condition came, went, or changed its status,
// reason or observed generation. Progress within one state is not a transition.
func Transitioned(before, after []metav1.Condition) bool {
	if len(before) != len(after) {
		return true
	}
	for _, is := range after {
		was := Find(before, is.Type)
		if was == nil || was.Status != is.Status || was.Reason != is.Reason || was.ObservedGeneration != is.ObservedGeneration {
			return true
		}
	}
	return false
}

// Became tells whether a condition has the status now and had another, or none, before.
func Became(before, after []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	is, was := Find(after, kind), Find(before, kind)
	return is != nil && is.Status == status && (was == nil || was.Status != status)
}

// Summary joins sentences about named things: sorted, the first few in full, the rest counted, so that the text neither
// flaps with map order nor grows with the graph.
func Summary(about map[string]string) string {
	named := make([]string, 0, len(about))
	for name := range about {
		named = append(named, name)
	}
	slices.Sort(named)
	rest := 0
	if len(named) > maxNamed {
		rest = len(named) - maxNamed
		named = named[:maxNamed]
	}
	parts := make([]string, 0, len(named)+1)
	for _, name := range named {
		parts = append(parts, name+": "+about[name])
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", rest))
	}
	return strings.Join(parts, "; ")
}

// Enumerate names the first few of some sorted things and counts the rest.
func Enumerate(sorted []string) string {
	if len(sorted) <= maxNamed {
		return strings.Join(sorted, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(sorted[:maxNamed], ", "), len(sorted)-maxNamed)
}

// clip shortens a message at a rune boundary.
func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("...")
	for cut > 0 && message[cut]&0xC0 == 0x80 {
		cut--
	}
	return message[:cut] + "..."
}
