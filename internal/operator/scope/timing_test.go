// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestATimingThatCannotHoldANamespaceIsRefused(t *testing.T) {
	t.Parallel()
	const (
		duration = "--namespace-scope-lease-duration"
		renew    = "--namespace-scope-lease-renew-interval"
	)
	for name, tc := range map[string]struct {
		timing Timing
		want   []string
	}{
		"the defaults":          {Timing{30 * time.Second, 10 * time.Second}, nil},
		"the shortest":          {Timing{time.Second, 500 * time.Millisecond}, nil},
		"less than a second":    {Timing{900 * time.Millisecond, 100 * time.Millisecond}, []string{duration + `: Invalid value: "900ms": must be whole seconds, from 1s to 1h`}},
		"a part of a second":    {Timing{1500 * time.Millisecond, 100 * time.Millisecond}, []string{duration + `: Invalid value: "1.5s": must be whole seconds, from 1s to 1h`}},
		"days":                  {Timing{48 * time.Hour, time.Minute}, []string{duration + `: Invalid value: "48h0m0s": must be whole seconds, from 1s to 1h`}},
		"renewed too seldom":    {Timing{30 * time.Second, 16 * time.Second}, []string{renew + `: Invalid value: "16s": must be at most half of ` + duration + ` (30s), so that one renewal may fail`}},
		"renewed all the time":  {Timing{30 * time.Second, time.Millisecond}, []string{renew + `: Invalid value: "1ms": must be at least 100ms`}},
		"nothing and backwards": {Timing{0, -time.Second}, []string{duration + `: Invalid value: "0s": must be whole seconds, from 1s to 1h`, renew + `: Invalid value: "-1s": must be at least 100ms`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range tc.timing.Validate(field.NewPath(duration), field.NewPath(renew)) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorkEndsBeforeTheLeaseDoes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timing             Timing
		patience, settling time.Duration
	}{
		"the defaults":                        {Timing{30 * time.Second, 10 * time.Second}, 25 * time.Second, 10 * time.Second},
		"one renewal may fail":                {Timing{20 * time.Second, 10 * time.Second}, 20*time.Second - 20*time.Second/6, 10 * time.Second},
		"a lease of a second":                 {Timing{time.Second, 500 * time.Millisecond}, time.Second - time.Second/6, time.Second},
		"renewals that do not fit in exactly": {Timing{39 * time.Second, 10 * time.Second}, 30 * time.Second, 10 * time.Second},
		"frequent renewals":                   {Timing{30 * time.Second, time.Second}, 25 * time.Second, 6 * time.Second},
		"a long lease":                        {Timing{10 * time.Minute, time.Minute}, 10*time.Minute - 5*time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if errs := tc.timing.Validate(field.NewPath("d"), field.NewPath("r")); len(errs) > 0 {
				t.Fatal(errs)
			}
			if got := tc.timing.patience(); got != tc.patience {
				t.Errorf("work goes on for %s after a renewal, want %s", got, tc.patience)
			}
			if got := tc.timing.settle(); got != tc.settling {
				t.Errorf("settles for %s, want %s", got, tc.settling)
			}
			if left := tc.timing.patience() - tc.timing.Renew - tc.timing.retry(); left <= 0 {
				t.Errorf("not even one failed renewal can be repeated in time: %s too late", -left)
			}
		})
	}
}
