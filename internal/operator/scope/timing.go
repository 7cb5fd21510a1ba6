// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// shortestDuration is what a Lease can say: whole seconds.
	shortestDuration = time.Second
	// longestDuration keeps a namespace from being left alone for hours after a crash.
	longestDuration = time.Hour
	// shortestRenewal keeps renewals from being a load.
	shortestRenewal = 100 * time.Millisecond

	longestMargin  = 5 * time.Second
	longestSettle  = 10 * time.Second
	longestRetry   = 2 * time.Second
	longestRequest = 5 * time.Second

	// handOver is how long a Lease lasts after its holder let it go for a successor.
	handOver = 5 * time.Second
)

// Timing is how long a claim on a namespace lasts and how often it is renewed.
type Timing struct {
	Duration time.Duration
	Renew    time.Duration
}

// Validate returns what is wrong, under the names by which a user knows both.
func (t Timing) Validate(duration, renew *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Duration < shortestDuration || t.Duration > longestDuration || t.Duration%time.Second != 0 {
		errs = append(errs, field.Invalid(duration, t.Duration.String(), "must be whole seconds, from 1s to 1h"))
	}
	if t.Renew < shortestRenewal {
		errs = append(errs, field.Invalid(renew, t.Renew.String(), "must be at least "+shortestRenewal.String()))
	}
	if t.Renew > t.Duration/2 {
		errs = append(errs, field.Invalid(renew, t.Renew.String(), "must be at most half of "+duration.String()+
			" ("+t.Duration.String()+"), so that one renewal may fail"))
	}
	return errs
}

// margin is how long before the end of the Lease work ends: for requests that are under way, and for clocks that differ
// where the other side compares them.
func (t Timing) margin() time.Duration { return min(t.Duration/6, longestMargin) }

// patience is how long after the start of the last renewal that succeeded work may go on. One renewal less may fail than
// fit into the Lease, and the margin is kept in any case.
func (t Timing) patience() time.Duration {
	return min(t.Duration/t.Renew*t.Renew, t.Duration-t.margin())
}

// settle is how long a new holder waits for a cluster-wide operator that never says that it let go: longer than one of ours
// that does not hear of the Lease goes on, and not longer than the Lease, which is renewed meanwhile.
func (t Timing) settle() time.Duration {
	return min(max(min(t.Renew, longestSettle), trust+straggle), t.Duration)
}

// retry is the pause after a request that failed.
func (t Timing) retry() time.Duration { return min(max(t.Renew/5, shortestRenewal), longestRetry) }

// request bounds a single request.
func (t Timing) request() time.Duration { return min(max(t.Renew, shortestDuration), longestRequest) }
