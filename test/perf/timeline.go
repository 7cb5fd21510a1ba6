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
	name, user, verb, resource, subresource string
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
		{"graphsCreated", GeneratorUser, "create", "dynamographdeployments", ""},
		{"componentsApplied", OperatorUser, "patch", "dynamocomponentdeployments", ""},
		{"deploymentsApplied", OperatorUser, "patch", "deployments", ""},
		{"replicaSetsCreated", deploymentController, "create", "replicasets", ""},
		{"podsCreated", replicaSetController, "create", "pods", ""},
		{"podsBound", schedulerUser, "create", "pods", "binding"},
		{"podsRunning", kwokUser, "patch", "pods", "status"},
		{"deploymentsReported", deploymentController, "update", "deployments", "status"},
		{"componentsTold", OperatorUser, "update", "dynamocomponentdeployments", "status"},
		{"graphsTold", OperatorUser, "update", "dynamographdeployments", "status"},
	}
}

// StepNames are the names of the steps, in the order of one graph.
func StepNames() []string {
	var all []string
	for _, s := range steps() {
		all = append(all, s.name)
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
