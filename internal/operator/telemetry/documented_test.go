// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamo-operator/dynamo-operator/internal/admission"
	"github.com/dynamo-operator/dynamo-operator/internal/operator/webhook"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const page = "../../../docs/metrics.md"

func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	want := document()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/metrics.md is out of date; run make generate (-want +got):\n%s", diff)
	}
}

func document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Generated from ` + "`internal/operator/telemetry`" + ` by ` + "`make generate`" + `; do not edit.

The operator serves metrics under ` + "`/metrics`" + ` at ` + "`--metrics-bind-address`" + `: in the clear by default, and with ` + "`--metrics-secure`" + ` over TLS to
callers who show a token that the API server knows and who may ` + "`get`" + ` the path ` + "`/metrics`" + `. An operator of one namespace may not ask the API server
that; it compares the token with the one in ` + "`metrics.bearerTokenFile`" + `, a mounted Secret.

## Of the operator

| Metric | Type | Labels | Meaning |
|---|---|---|---|
`)
	for _, d := range definitions() {
		labels := "`" + strings.Join(d.labels, "`, `") + "`"
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s |\n", prefix, d.name, d.kind, labels, d.help)
	}
	b.WriteString(`
Buckets, in seconds:

`)
	for _, d := range definitions() {
		if d.kind == histogram {
			fmt.Fprintf(&b, "- `%s%s`: %s\n", prefix, d.name, strings.Trim(fmt.Sprint(d.buckets), "[]"))
		}
	}
	b.WriteString(`
## Why objects are refused

The reason of ` + "`dynamo_operator_webhook_denials_total`" + ` is one of the [rules](admission.md) that webhooks enforce: ` + strings.Join(rules(), ", ") + `. Or:

| Reason | Meaning |
|---|---|
`)
	reasons := webhook.Reasons()
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", reason, reasons[reason])
	}
	b.WriteString(`
## Of the framework

Those that people ask for most; controller-runtime, client-go and the Go runtime have more.

| Metric | Meaning |
|---|---|
| ` + "`workqueue_queue_duration_seconds{name}`" + ` | queue age: how long objects waited before their pass began |
| ` + "`workqueue_depth{name}`" + ` | how many objects wait |
| ` + "`workqueue_unfinished_work_seconds{name}`, `workqueue_longest_running_processor_seconds{name}`" + ` | passes that hang |
| ` + "`leader_election_master_status{name}`" + ` | 1 on the replica that works |
| ` + "`controller_runtime_reconcile_panics_total`" + ` | passes that panicked; should be 0 |
| ` + "`rest_client_requests_total{code,method}`" + ` | requests to the API server |
`)
	return b.String()
}

// rules are the names of those that can refuse an object on admission.
func rules() []string {
	var all []string
	for _, rule := range admission.Rules() {
		if rule.Level == admission.Refusal && rule.Places&admission.Webhook != 0 {
			all = append(all, "`"+rule.Name+"`")
		}
	}
	return all
}
