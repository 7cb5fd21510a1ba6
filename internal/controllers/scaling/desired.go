// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scaling reconciles DynamoGraphDeploymentScalingAdapters: the number that an autoscaler or a planner wants to one
// service of a graph, the replicas that the graph counts to the adapter's status.
package scaling

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/observe"
)

// adapterObject is short for a name that fills half a line.
type adapterObject = v1alpha1.DynamoGraphDeploymentScalingAdapter

// Seen is what an adapter finds around it.
type Seen struct {
	// Graph is the one that the adapter refers to, nil for none.
	Graph *v1alpha1.DynamoGraphDeployment
	// Adapters are all that refer to that graph, the one that looks around among them.
	Adapters []adapterObject
}

// Target is the service that an adapter scales, or why it scales none.
type Target struct {
	// Reason and Problem say what keeps the adapter from scaling anything. They are empty where nothing does.
	Reason, Problem string

	Service *v1alpha1.DynamoComponentDeploymentSharedSpec
	// Has is how many replicas the graph wants of the service.
	Has int32
}

// Desired finds what an adapter scales. It is pure.
func Desired(a *adapterObject, problems field.ErrorList, seen Seen) Target {
	ref := a.Spec.DGDRef
	if len(problems) > 0 {
		return Target{Reason: conditions.ValidationFailed, Problem: problems.ToAggregate().Error()}
	}
	if seen.Graph == nil {
		return none(conditions.GraphNotFound, "There is no DynamoGraphDeployment %q in this namespace", ref.Name)
	}
	service := seen.Graph.Spec.Services[ref.ServiceName]
	if service == nil {
		return none(conditions.ServiceNotFound, "DynamoGraphDeployment %q has no service %q; its services are: %s",
			ref.Name, ref.ServiceName, strings.Join(servicesOf(seen.Graph), ", "))
	}
	if holder := observe.Holder(seen.Graph, ref.ServiceName, seen.Adapters); holder != nil && holder.Name != a.Name {
		return none(conditions.HasOtherAdapter, "Service %q of DynamoGraphDeployment %q is scaled by adapter %q; delete one of the two",
			ref.ServiceName, ref.Name, holder.Name)
	}
	return Target{Service: service, Has: ptr.Deref(service.Replicas, 1)}
}

func none(reason, format string, about ...any) Target {
	return Target{Reason: reason, Problem: fmt.Sprintf(format, about...)}
}

// servicesOf names the services of a graph that can be scaled.
func servicesOf(g *v1alpha1.DynamoGraphDeployment) []string {
	described := maps.Clone(g.Spec.Services)
	maps.DeleteFunc(described, func(_ string, s *v1alpha1.DynamoComponentDeploymentSharedSpec) bool { return s == nil })
	return slices.Sorted(maps.Keys(described))
}
