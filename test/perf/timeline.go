// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// Step is one of the things that have to happen before graphs are Ready, and when it did: in seconds after the beginning.
type Step struct {
	Name string
	Distribution
}

// step recognises the requests that a step consists of.
type step struct {
	name, title, user, verb, resource, subresource string
}

// Users that a controller manager acts as.
const (
	deploymentController = "system:serviceaccount:kube-system:deployment-controller"
	replicaSetController = "system:serviceaccount:kube-system:replicaset-controller"
	schedulerUser        = "system:kube-scheduler"
	kwokUser             = "kwok"
)

// steps are the way from a graph to Ready where there are pods, in the order of one graph.
func steps() []step {
	return []step{
		{"graphsCreated", "graphs are created", GeneratorUser, "create", "dynamographdeployments", ""},
		{"componentsApplied", "components are applied", OperatorUser, "patch", "dynamocomponentdeployments", ""},
		{"deploymentsApplied", "Deployments are applied", OperatorUser, "patch", "deployments", ""},
		{"replicaSetsCreated", "ReplicaSets are created", deploymentController, "create", "replicasets", ""},
		{"podsCreated", "pods are created", replicaSetController, "create", "pods", ""},
		{"podsBound", "pods are bound to nodes", schedulerUser, "create", "pods", "binding"},
		{"podsRunning", "pods run and are Ready", kwokUser, "patch", "pods", "status"},
		{"deploymentsReported", "Deployments are reported", deploymentController, "update", "deployments", "status"},
		{"componentsTold", "statuses of components are written", OperatorUser, "update", "dynamocomponentdeployments", "status"},
		{"graphsTold", "statuses of graphs are written", OperatorUser, "update", "dynamographdeployments", "status"},
	}
}

// StepName is what a step is called in results, and for people.
type StepName struct{ Name, Title string }

// StepNames are the names of the steps, in the order of one graph.
func StepNames() []StepName {
	var all []StepName
	for _, s := range steps() {
		all = append(all, StepName{s.name, s.title})
	}
	return all
}

// Timeline tells when the requests of each step were answered. The step whose last request comes long after the last of
// the step before it is where the time goes.
func Timeline(records []localcluster.AuditRecord, begin time.Time) []Step {
	var line []Step
	for _, s := range steps() {
		var at []float64
		for _, r := range records {
			if r.User == s.user && r.Verb == s.verb && r.Resource == s.resource && r.Subresource == s.subresource {
				at = append(at, r.Answered.Sub(begin).Seconds())
			}
		}
		line = append(line, Step{Name: s.name, Distribution: Distribute(at)})
	}
	return line
}
