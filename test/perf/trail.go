// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"testing"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/test/harness"
)

const (
	// quiet is how long an operator must have asked nothing to count as settled. It is longer than every pause the operator
	// makes on its own account: status progress is held for one second, unseen writes are believed for five.
	quiet = 6 * time.Second
	// glance is how often the audit log is looked at. Reading it costs time that belongs to those who are measured.
	glance = 250 * time.Millisecond
)

// Trail is the audit log from a moment on. It reads what was added and nothing twice.
type Trail struct {
	t       testing.TB
	path    string
	offset  int64
	records []localcluster.AuditRecord
}

// NewTrail begins at the end of what there is.
func NewTrail(t testing.TB) *Trail {
	t.Helper()
	trail := &Trail{t: t, path: harness.AuditLog(t)}
	trail.Read()
	trail.records = nil
	return trail
}

// Read returns all requests since the beginning of the trail.
func (a *Trail) Read() []localcluster.AuditRecord {
	a.t.Helper()
	more, end, err := localcluster.ReadAudit(a.path, a.offset)
	if err != nil {
		a.t.Fatal(err)
	}
	a.offset = end
	a.records = append(a.records, more...)
	return a.records
}

// Settle waits until the user has been quiet and returns all requests since the beginning of the trail. What an operator
// asks while it has nothing to do is no noise.
func (a *Trail) Settle(user string, limit time.Duration) []localcluster.AuditRecord {
	a.t.Helper()
	looked, last, seen := time.Time{}, time.Now(), -1
	harness.Eventually(a.t, limit, user+" settles", func() (bool, string) {
		if time.Since(looked) < glance {
			return false, ""
		}
		looked = time.Now()
		r := Fold(a.Read(), user)
		if n := r.Writes() + r.Reads; n != seen {
			last, seen = time.Now(), n
		}
		return time.Since(last) > quiet, Transcript(a.records[max(0, len(a.records)-20):], user)
	})
	return a.records
}

// Wait lets a time pass in which nothing is done.
func Wait(t testing.TB, long time.Duration) {
	t.Helper()
	select {
	case <-time.After(long):
	case <-t.Context().Done():
	}
}
