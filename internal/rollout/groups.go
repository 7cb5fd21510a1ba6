// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Group is what is known of one replica of a multi-node service. Like Seen it is not older than the caller's own writes.
type Group struct {
	Name   string
	Exists bool
	// Current tells that it has the wanted template.
	Current bool
	// Ready tells that all its pods are of its own latest generation and ready.
	Ready bool
}

// Replace returns the names of the groups that may be changed to the wanted template, or made with it, now. Others that
// are not current have to wait. Groups are all that the service wants, so their number is that of its replicas.
//
// Groups that do not serve cost nothing and come first, in the order given: a broken template must not hold up its own
// correction. Groups that are ready follow, in the order given, as long as no more than maxUnavailable are not ready. If
// the wanted template is broken, those that have it stay unready and the rollout stops there.
func Replace(groups []Group, maxUnavailable int) []string {
	var free, serving []string
	ready := 0
	for _, g := range groups {
		if g.Ready {
			ready++
		}
		switch {
		case !g.Exists || (!g.Current && !g.Ready):
			free = append(free, g.Name)
		case !g.Current:
			serving = append(serving, g.Name)
		}
	}
	// Without at least one a rollout could never end: there is no surplus group to take over meanwhile.
	budget := ready - (len(groups) - max(1, maxUnavailable))
	return append(free, serving[:min(max(0, budget), len(serving))]...)
}

// MaxUnavailable reads how many of a number of groups may be unready during a rollout: an integer, or a percentage that
// is rounded down, and at least one. Def is for a value that is empty or makes no sense.
func MaxUnavailable(value string, groups, def int) int {
	parsed := intstr.Parse(value)
	n, err := intstr.GetScaledValueFromIntOrPercent(&parsed, groups, false)
	if err != nil || n < 0 {
		n = def
	}
	return max(1, n)
}
