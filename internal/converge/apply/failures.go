// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// patience is how long a failure that should pass by itself may take to do so before a user reads about it.
const patience = 30 * time.Second

// Reported returns, by child, the failures that a user should read about. Conflicts, overload and time-outs pass by
// themselves; putting them into a status at once would only make it flap.
func (r Result) Reported() map[string]string {
	about := map[string]string{}
	for _, f := range r.Failures {
		if !transient(f.Err) || r.failingFor >= patience {
			about[f.Key.String()] = explain(f.Err)
		}
	}
	return about
}

// Err joins all failures, nil for none. Returning it makes the work queue try again with growing pauses.
func (r Result) Err() error {
	errs := make([]error, 0, len(r.Failures))
	for _, f := range r.Failures {
		errs = append(errs, f.Err)
	}
	return errors.Join(errs...)
}

// passing tells whether something failed that will pass by itself.
func (r Result) passing() bool {
	return slices.ContainsFunc(r.Failures, func(f Failure) bool { return transient(f.Err) })
}

// transient recognises what passes by itself: conflicts, overload, and requests that never got an answer.
func transient(err error) bool {
	if _, unanswered := errors.AsType[*url.Error](err); unanswered {
		return true
	}
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || isServerFault(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isServerFault recognises a fault of the API server itself. That a webhook of somebody's does not answer is told the
// same way, but somebody has to do something about it.
func isServerFault(err error) bool {
	return apierrors.IsInternalError(err) && !strings.Contains(err.Error(), "webhook")
}

// explain is the server's own sentence where there is one: it names the field, which our wrapping does not.
func explain(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return fmt.Sprintf("the API server refused it: %s", status.Status().Message)
	}
	return err.Error()
}
