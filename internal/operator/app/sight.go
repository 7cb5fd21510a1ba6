// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/dynamo-operator/dynamo-operator/api/v1alpha1"
	"github.com/dynamo-operator/dynamo-operator/internal/converge/conditions"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/config"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/telemetry"
)

// sight is how the operator can be seen from outside.
type sight struct {
	registry prometheus.Registerer
	metrics  *telemetry.Metrics
	traces   telemetry.Traces
}

func newSight(ctx context.Context, c *config.Config) (sight, error) {
	registry := prometheus.Registerer(metrics.Registry)
	if c.SharedProcess {
		registry = prometheus.NewRegistry() // the one of the process has room for one operator
	}
	measures, err := telemetry.NewMetrics(registry, clock.RealClock{})
	if err != nil {
		return sight{}, fmt.Errorf("register metrics: %w", err)
	}
	traces, err := telemetry.NewTraces(ctx, telemetry.TraceOptions{
		Endpoint: c.Tracing.Endpoint, RatePerMillion: c.Tracing.SamplingRatePerMillion, Version: c.Version(),
		Log: ctrl.Log.WithName("traces"),
	})
	return sight{registry: registry, metrics: measures, traces: traces}, err
}

// counted are the kinds whose objects are counted.
func counted(paused func(client.Object) bool) []telemetry.Counted {
	all := kinds()
	rows := make([]telemetry.Counted, 0, len(all))
	for _, k := range all {
		rows = append(rows, telemetry.Counted{Kind: k.name, List: k.list, Status: k.status, Paused: paused, Contested: isContested})
	}
	return rows
}

// isContested tells whether others keep changing what an object made. An adapter makes nothing.
func isContested(obj client.Object) bool {
	switch o := obj.(type) {
	case *v1alpha1.DynamoGraphDeployment:
		return conditions.IsTrue(o.Status.Conditions, v1alpha1.ConditionContested)
	case *v1alpha1.DynamoComponentDeployment:
		return conditions.IsTrue(o.Status.Conditions, v1alpha1.ConditionContested)
	}
	return false
}

// unknownState is the state of a graph that nobody has looked at yet.
const unknownState = "unknown"

func graphState(obj client.Object) string {
	if g, ok := obj.(*v1alpha1.DynamoGraphDeployment); ok && g.Status.State != "" {
		return string(g.Status.State)
	}
	return unknownState
}

func componentReadiness(obj client.Object) string {
	c, ok := obj.(*v1alpha1.DynamoComponentDeployment)
	return readiness(ok && conditions.IsTrue(c.Status.Conditions, v1alpha1.ConditionReady))
}

func adapterReadiness(obj client.Object) string {
	a, ok := obj.(*v1alpha1.DynamoGraphDeploymentScalingAdapter)
	return readiness(ok && conditions.IsTrue(a.Status.Conditions, v1alpha1.ConditionReady))
}

func readiness(ready bool) string {
	if ready {
		return "ready"
	}
	return "not_ready"
}
