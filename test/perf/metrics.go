// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

// Kinds as their controllers are called.
const (
	graphKind     = "DynamoGraphDeployment"
	componentKind = "DynamoComponentDeployment"
)

// Metric asks an operator for a metric: the sum of all its series that have the labels, each as in `name="value"`. To ask
// has a price, since the operator counts its objects for the answer, so it is not done while something is timed.
func Metric(t testing.TB, p *harness.Process, name string, labels ...string) float64 {
	t.Helper()
	return sumSeries(scrape(t, p), name, labels)
}

// scrape returns all metrics of an operator.
func scrape(t testing.TB, p *harness.Process) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("ask %s for metrics: %v", p.Name, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("ask %s for metrics: %v", p.Name, err)
	}
	return string(text)
}

func sumSeries(text, name string, labels []string) float64 {
	total := 0.0
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(series, name+"{") || !hasAll(series, labels) {
			continue
		}
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			total += n
		}
	}
	return total
}

func hasAll(series string, labels []string) bool {
	for _, label := range labels {
		if !strings.Contains(series, label) {
			return false
		}
	}
	return true
}

// passed names the metric of Passes.
const passed = "controller_runtime_reconcile_total"

// Passes is how often an operator has looked at objects of a kind.
func Passes(t testing.TB, p *harness.Process, kind string) int {
	t.Helper()
	return int(Metric(t, p, passed, ofController(kind)))
}

func ofController(kind string) string { return `controller="` + kind + `"` }

// LookedAtAll tells whether a new operator has looked at n graphs and their components, and how far it is. It asks only once for all of it.
func LookedAtAll(t testing.TB, p *harness.Process, n int) (bool, string) {
	t.Helper()
	text := scrape(t, p)
	graphs, components := int(sumSeries(text, passed, []string{ofController(graphKind)})), int(sumSeries(text, passed, []string{ofController(componentKind)}))
	waiting := int(sumSeries(text, "workqueue_depth", nil))
	return graphs >= n && components >= 2*n && waiting == 0,
		fmt.Sprintf("it has looked at graphs %d times and at components %d times, and %d wait", graphs, components, waiting)
}
