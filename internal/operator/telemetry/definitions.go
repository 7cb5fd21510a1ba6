// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix begins the name of every metric that is our own.
const prefix = "dynamo_operator_"

// Kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// definition is one metric: what the reader of its documentation and the one who makes it have to know.
type definition struct {
	name    string
	kind    string
	help    string
	labels  []string
	buckets []float64
}

// Names of labels.
const (
	labelType      = "resource_type"
	labelNamespace = "namespace"
	labelResult    = "result"
	labelReason    = "reason"
	labelOperation = "operation"
	labelStatus    = "status"
)

// The metrics. Names, labels and buckets of the first seven are part of the contract.
var (
	reconcileDuration = definition{
		name: "reconcile_duration_seconds", kind: histogram, labels: []string{labelType, labelNamespace, labelResult},
		help:    "How long passes took. A result is success, error, or requeue when another pass was asked for without an error.",
		buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}
	reconcileTotal = definition{
		name: "reconcile_total", kind: counter, labels: []string{labelType, labelNamespace, labelResult},
		help: "How many passes there were.",
	}
	reconcileErrors = definition{
		name: "reconcile_errors_total", kind: counter, labels: []string{labelType, labelNamespace, "error_type"},
		help: "How many passes failed, by the kind of answer that the API server gave: " + strings.Join(categories(), ", ") + ".",
	}
	resourcesTotal = definition{
		name: "resources_total", kind: gauge, labels: []string{labelType, labelNamespace, labelStatus},
		help: "How many objects there are. The status of a graph is its state; that of other kinds is ready or not_ready. Only the leader counts.",
	}
	webhookDuration = definition{
		name: "webhook_duration_seconds", kind: histogram, labels: []string{labelType, labelOperation},
		help: "How long admission took.", buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}
	webhookRequests = definition{
		name: "webhook_requests_total", kind: counter, labels: []string{labelType, labelOperation, labelResult},
		help: "How many objects were judged on admission. A result is allowed or denied.",
	}
	webhookDenials = definition{
		name: "webhook_denials_total", kind: counter, labels: []string{labelType, labelOperation, labelReason},
		help: "How many objects were refused, by the rule that they break. Who breaks several counts for each of them.",
	}
	writesTotal = definition{
		name: "writes_total", kind: counter, labels: []string{"kind", labelReason},
		help: "How many objects the operator wrote. A reason is created, changed, drifted (somebody else had changed what is ours), adopted, pruned, " +
			"released (an owner reference or finalizer was taken off), scaled, or, for status, transition or progress.",
	}
	workerCalls = definition{
		name: "lora_requests_total", kind: counter, labels: []string{labelOperation, labelResult},
		help: "How many calls workers got about adapters: list, load or unload, and whether it was a success or a failure.",
	}
	workerDuration = definition{
		name: "lora_request_duration_seconds", kind: histogram, labels: []string{labelOperation},
		help:    "How long such a call took.",
		buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15},
	}
	quietPasses = definition{
		name: "reconcile_without_writes_total", kind: counter, labels: []string{labelType},
		help: "How many passes changed nothing. Together with reconcile_total it is the share of passes for which nobody paid but the operator.",
	}
	timeToReady = definition{
		name: "time_to_ready_seconds", kind: histogram, labels: []string{labelType},
		help:    "How long objects took to become ready: since their creation, or since they were last ready.",
		buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600},
	}
	pausedTotal = definition{
		name: "paused_resources", kind: gauge, labels: []string{labelType, labelNamespace},
		help: "How many objects are held still by the annotation nvidia.com/reconcile: paused. Only the leader counts.",
	}
	contestedTotal = definition{
		name: "contested_resources", kind: gauge, labels: []string{labelType, labelNamespace},
		help: "How many objects have children that somebody else keeps changing, so that they are put right only now and then. Only the leader counts.",
	}
	certificateExpiry = definition{
		name: "certificate_expiry_timestamp_seconds", kind: gauge, labels: []string{"certificate"},
		help: "When the certificate of the webhooks (leaf) and the authority that signed it (authority) end, in seconds since 1970.",
	}
	namespaceLease = definition{
		name: "namespace_lease", kind: gauge, labels: []string{labelNamespace, "state"},
		help: "Namespaces that belong to an operator of their own. The state is held where that is this operator, and excluded where it is another.",
	}
)

// definitions are all metrics, in the order of the documentation.
func definitions() []definition {
	return []definition{
		reconcileDuration, reconcileTotal, reconcileErrors, resourcesTotal, webhookDuration, webhookRequests, webhookDenials,
		writesTotal, quietPasses, timeToReady, workerCalls, workerDuration, pausedTotal, contestedTotal, certificateExpiry, namespaceLease,
	}
}

func (d definition) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + d.name, Help: d.help}, d.labels)
}

func (d definition) histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + d.name, Help: d.help, Buckets: d.buckets}, d.labels)
}

func (d definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(prefix+d.name, d.help, d.labels, nil)
}
