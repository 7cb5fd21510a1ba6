// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grove plays the controllers and the admission of Grove for tests. Of Grove itself only the API module can be
// built, so a [Simulator] does to PodCliqueSets what a reader of that API expects, and is honest about where it stops.
//
// It works one PodCliqueSet at a time. Every look at it takes it one small step further, whose result is written before
// the next, so that every intermediate state can be seen by whoever watches. The rules, in this order, and the behaviour
// of Grove that each stands for:
//
//	clear         a deleted PodCliqueSet keeps Grove's finalizer until everything made for it is gone
//	guard         Grove puts that finalizer on a PodCliqueSet before it makes anything
//	accept        the hash of all templates is kept in the status; another hash starts a rolling update
//	prune         what the PodCliqueSet or a scaling group no longer asks for is deleted
//	makeGroups    each replica has a PodCliqueScalingGroup per configuration, with the replicas of the configuration at
//	              first; later the group's own number counts, which autoscalers and operators set through /scale
//	makeCliques   the same for PodCliques outside of groups; each replica of a group has a PodClique per member
//	pushTemplates a PodClique outside of groups gets a new template in place, in one replica of the set at a time
//	acknowledge   observedGeneration says that the objects were written, not that anybody has acted on them: the
//	              status of PodCliques and groups is written by other controllers of Grove, and later
//	reportGroups  a replica of a group is available, scheduled or updated when all its PodCliques are
//	reportSet     a replica of the set is available when each PodClique and group in it has its minimum
//	rollGroups    a group replaces its replicas one after another, each by deleting its PodCliques; replicas that are
//	              not available anyway are not waited for
//	runCliques    a PodClique makes and removes pods, and replaces them one after another when its template changes;
//	              pods that are not ready anyway are not waited for
//
// Pods are numbers only, unless [WithPods] asks for real ones. Numbers become ready as soon as nobody holds them.
//
// Not played: PodGangs, gang scheduling and gang termination, conditions, events, lastErrors, the order of starts,
// headless Services and the variables in containers that go with them, autoscalers, topology, and defaulting except for
// minAvailable. Pods of Grove have random names and the hostname <podclique>-<index>; here that is the name, too.
//
// The admission of Grove is a policy for the API server, see [Admission].
package grove
