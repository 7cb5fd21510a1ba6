// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// isWrite tells whether a request changed something, or tried to.
func isWrite(r localcluster.AuditRecord) bool {
	return slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb)
}

// isWork tells whether a request is part of the work on graphs. Events tell about it afterwards.
func isWork(r localcluster.AuditRecord) bool {
	return isWrite(r) && r.Resource != "leases" && r.Resource != "events"
}

func isClaim(r localcluster.AuditRecord) bool {
	return isWrite(r) && r.Resource == "leases" && r.Name == names.ScopeLease && r.Code < 300
}

// tenure is what one process did in the namespace.
type tenure struct {
	user       string
	restricted bool
	work       []localcluster.AuditRecord
	// claimed and until are from when to when a restricted operator, or the reference, had the namespace.
	claimed, until time.Time
}

// first and last bound the work.
func (t tenure) first() time.Time { return t.work[0].Received }

func (t tenure) last() time.Time {
	return slices.MaxFunc(t.work, func(a, b localcluster.AuditRecord) int { return a.Answered.Compare(b.Answered) }).Answered
}

// tenures folds requests into what each process did.
func tenures(requests []localcluster.AuditRecord, lasts time.Duration) []*tenure {
	var all []*tenure
	slices.SortFunc(requests, func(a, b localcluster.AuditRecord) int {
		return cmp.Or(a.Received.Compare(b.Received), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range requests {
		restricted := strings.HasPrefix(r.User, "restricted-") || r.User == reference
		if !restricted && !strings.HasPrefix(r.User, "cluster-") {
			continue
		}
		i := slices.IndexFunc(all, func(t *tenure) bool { return t.user == r.User })
		if i < 0 {
			i, all = len(all), append(all, &tenure{user: r.User, restricted: restricted})
		}
		t := all[i]
		if isWork(r) {
			t.work = append(t.work, r)
		}
		if !restricted || !isClaim(r) {
			continue
		}
		if t.claimed.IsZero() {
			t.claimed = r.Answered
		}
		t.until = r.Received.Add(lasts)
		if r.Verb == "delete" {
			t.until = r.Received
		}
	}
	return all
}

// judge proves from the audit log that the two sides never worked at once: nothing of a cluster-wide operator arrived
// between the first write of a restricted one and the end of its claim, nor did anything of another restricted one.
func (s *story) judge() {
	s.Helper()
	all := tenures(s.requests(), s.lasts)
	workers := 0
	for _, t := range all {
		if len(t.work) == 0 {
			continue
		}
		workers++
		s.Logf("%s: %d writes from %s to %s", t.user, len(t.work), t.first().Format("05.000"), t.last().Format("05.000"))
		if t.restricted {
			s.judgeClaim(t, all)
		}
	}
	if workers < 2 {
		s.Errorf("only %d processes did anything, so that nothing is proved", workers)
	}
}

func (s *story) judgeClaim(t *tenure, all []*tenure) {
	s.Helper()
	late := slices.DeleteFunc(slices.Clone(t.work), func(w localcluster.AuditRecord) bool { return !w.Answered.After(t.until) })
	excused := len(late) == 1 && !s.resumed.IsZero() && late[0].Answered.Before(s.resumed.Add(time.Second))
	if t.first().Before(t.claimed) || len(late) > 0 && !excused {
		s.Errorf("%s worked from %s to %s, but its claim was from %s to %s", t.user, t.first(), t.last(), t.claimed, t.until)
	}
	for _, w := range late {
		s.Logf("%s %s/%s/%s came at %s and was answered with %d at %s", w.Verb, w.Resource, w.Name, w.Subresource,
			w.Received.Format("05.000"), w.Code, w.Answered.Format("05.000"))
	}
	for _, other := range all {
		if other == t {
			continue
		}
		end := t.until
		if other.restricted {
			end = t.last() // a successor need not wait for the end of the claim
		}
		for _, w := range other.work {
			if w.Answered.After(t.first()) && w.Received.Before(end) {
				s.Errorf("%s: %s %s/%s/%s from %s to %s, but %s had the namespace from %s to %s", other.user, w.Verb, w.Resource, w.Name, w.Subresource,
					w.Received.Format("05.000"), w.Answered.Format("05.000"), t.user, t.first().Format("05.000"), end.Format("05.000"))
				return
			}
		}
	}
}
