// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAPercentileIsASampleThatOccurred(t *testing.T) {
	t.Parallel()
	hundredSamples := make([]float64, 0, 100)
	for i := 100; i > 0; i-- {
		hundredSamples = append(hundredSamples, float64(i))
	}
	for name, tc := range map[string]struct {
		samples []float64
		want    Distribution
	}{
		"none":    {nil, Distribution{}},
		"one":     {[]float64{7}, Distribution{Count: 1, P50: 7, P99: 7, Max: 7, Sum: 7}},
		"two":     {[]float64{2, 1}, Distribution{Count: 2, P50: 1, P99: 2, Max: 2, Sum: 3}},
		"hundred": {hundredSamples, Distribution{Count: 100, P50: 50, P99: 99, Max: 100, Sum: 5050}},
	} {
		if diff := cmp.Diff(tc.want, Distribute(tc.samples)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestASlopeIsThatOfTheLineThroughAllPoints(t *testing.T) {
	t.Parallel()
	if got := Slope([]Point{{0, 50}, {200, 60}, {1000, 100}, {2000, 150}}); got < 0.0499 || got > 0.0501 {
		t.Errorf("slope %v, want 0.05", got)
	}
	if got := Slope([]Point{{5, 1}, {5, 2}}); got != 0 {
		t.Errorf("slope of a single size: %v", got)
	}
}

func TestUsageIsReadWhateverAProgramIsCalled(t *testing.T) {
	t.Parallel()
	stat := []byte("42 (a) odd (name) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 12 0 100 1000 200 184467")
	status := []byte("Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n")
	got, err := parseUsage(stat, status)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Usage{CPU: 3 * time.Second, Resident: 1 << 20, Peak: 2 << 20}, got); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	for name, broken := range map[string][2]string{"no stat": {"", string(status)}, "no memory": {string(stat), "Name:\tx\n"}} {
		if u, err := parseUsage([]byte(broken[0]), []byte(broken[1])); err == nil {
			t.Errorf("%s is read as %+v", name, u)
		}
	}
	if self, err := ReadUsage(os.Getpid()); err != nil || self.Peak < self.Resident || self.Resident == 0 {
		t.Errorf("this process uses %+v: %v", self, err)
	}
}

func TestAMetricIsTheSumOfItsSeries(t *testing.T) {
	t.Parallel()
	text := `# TYPE workqueue_depth gauge
workqueue_depth{controller="A",priority="0"} 3
workqueue_depth{controller="A",priority="-100"} 4
workqueue_depth{controller="B",priority="0"} 5
workqueue_depth_total{controller="A"} 9
`
	if got := sumSeries(text, "workqueue_depth", []string{`controller="A"`}); got != 7 {
		t.Errorf("sum %v, want 7", got)
	}
}

func TestASpanIsFromTheFirstRequestToTheLastThatIsReady(t *testing.T) {
	t.Parallel()
	at := func(seconds ...int) []time.Time {
		var all []time.Time
		for _, s := range seconds {
			all = append(all, time.Unix(int64(s), 0))
		}
		return all
	}
	if got := Span(at(2, 1, 3), at(9, 4, 5)); got != 8*time.Second {
		t.Errorf("span %s, want 8s", got)
	}
	if got := Since(at(2, 1, 3), at(9, 4, 5)); got.Max != 7 || got.P50 != 3 {
		t.Errorf("each: %+v", got)
	}
	if got := Span(nil, nil); got != 0 {
		t.Errorf("span of nothing: %s", got)
	}
}
