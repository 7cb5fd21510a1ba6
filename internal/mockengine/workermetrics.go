// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package mockengine

import (
	"github.com/prometheus/client_golang/prometheus"
)

// workerMetrics collects the metrics of a worker from its state.
type workerMetrics struct{ worker *Worker }

// Describe describes nothing in advance: which models there are is known when somebody asks.
func (workerMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m workerMetrics) Collect(out chan<- prometheus.Metric) {
	id := m.worker.options.Identity
	fixed := prometheus.Labels{
		"dynamo_namespace": id.Namespace, "dynamo_component": id.Component, "dynamo_endpoint": EndpointName,
	}
	gauge := func(name, help string, value int) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, fixed), prometheus.GaugeValue, float64(value))
	}
	counter := func(name, help string, byModel map[string]int) {
		desc := prometheus.NewDesc(name, help, []string{"model"}, fixed)
		for model, count := range byModel {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(count), model)
		}
	}
	state := m.worker.State()
	counter("dynamo_component_requests_total", "Requests to generate.", state.Counters.Requests)
	gauge("dynamo_component_inflight_requests", "Requests that run or wait.", state.Usage.Running+state.Usage.Waiting)
	gauge("dynamo_component_kvstats_active_blocks", "Blocks of the cache that are in use.", state.Usage.Blocks)
	gauge("dynamo_component_kvstats_total_blocks", "Blocks of the cache.", state.Usage.Total)
	gauge("mocker_adapters", "Adapters that are loaded.", len(state.Adapters))
	counter("mocker_adapter_loads_total", "Loads of adapters, also of loaded ones.", state.Counters.Loads)
	counter("mocker_adapter_failed_loads_total", "Loads of adapters that were refused.", state.Counters.FailedLoads)
	counter("mocker_adapter_unloads_total", "Unloads of adapters.", state.Counters.Unloads)
}
