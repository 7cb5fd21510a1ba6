// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
)

// awaitReady tells what changes until every graph is ready.
func (s *show) awaitReady(ctx context.Context, graphs []client.ObjectKey) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.Timeout, fmt.Errorf("%w within %s", ErrNotReady, s.Timeout))
	defer cancel()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	told := map[client.ObjectKey]string{}
	for {
		ready := 0
		for _, key := range graphs {
			done, err := s.look(ctx, key, told)
			if err != nil && ctx.Err() == nil {
				return err
			}
			if done {
				ready++
			}
		}
		if ready == len(graphs) {
			return nil
		}
		if s.Alive != nil {
			if err := s.Alive(ctx); err != nil && ctx.Err() == nil {
				return errors.Join(ErrNotReady, err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// look reports whether a graph is ready and says what has changed since the last look.
func (s *show) look(ctx context.Context, key client.ObjectKey, told map[client.ObjectKey]string) (bool, error) {
	var graph v1alpha1.DynamoGraphDeployment
	if err := s.api.Get(ctx, key, &graph); err != nil {
		return false, fmt.Errorf("get graph %s: %w", key, err)
	}
	line := narrate(&graph)
	if told[key] != line {
		told[key] = line
		s.say("graph %s: %s", key.Name, line)
	}
	return isReady(&graph), nil
}

// isReady wants the verdict to be about the spec that was applied and not about an earlier one.
func isReady(graph *v1alpha1.DynamoGraphDeployment) bool {
	condition := meta.FindStatusCondition(graph.Status.Conditions, v1alpha1.ConditionReady)
	return condition != nil && condition.Status == metav1.ConditionTrue &&
		upToDate(graph.Status.ObservedGeneration, graph.Generation) && upToDate(condition.ObservedGeneration, graph.Generation)
}

// upToDate takes an absent observation for a current one: the field is an addition that not every writer knows.
func upToDate(observed, generation int64) bool {
	return observed == 0 || observed == generation
}

// narrate describes a graph in one line that changes only when something happened.
func narrate(graph *v1alpha1.DynamoGraphDeployment) string {
	state := "not looked at by the operator yet"
	if condition := meta.FindStatusCondition(graph.Status.Conditions, v1alpha1.ConditionReady); condition != nil {
		state = "not ready"
		if isReady(graph) {
			state = "ready"
		}
		if condition.Message != "" {
			state += ": " + condition.Message
		}
	}
	var services []string
	for _, name := range slices.Sorted(maps.Keys(graph.Status.Services)) {
		service := graph.Status.Services[name]
		services = append(services, fmt.Sprintf("%s %d/%d", name, running(service), service.Replicas))
	}
	if len(services) > 0 {
		state += " (" + strings.Join(services, ", ") + ")"
	}
	return state
}

// running is the count that tells most: available where the workload knows it, else ready, else updated.
func running(service v1alpha1.ServiceReplicaStatus) int32 {
	switch {
	case service.AvailableReplicas != nil:
		return *service.AvailableReplicas
	case service.ReadyReplicas != nil:
		return *service.ReadyReplicas
	default:
		return service.UpdatedReplicas
	}
}
