// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// Requests are what one user asked of the API server, by class.
type Requests struct {
	Creates, Updates, Deletes, Status, Events, Reads int
}

// Writes are all requests that change something.
func (r Requests) Writes() int { return r.Creates + r.Updates + r.Deletes + r.Status + r.Events }

// Upkeep is what an operator that has nothing to do asks all the same: to stay elected and informed.
type Upkeep struct {
	// Leases are requests about Leases, and the events that tell of an election.
	Leases int
	// Watches are those that ended. An operator that stays informed opens another for each.
	Watches int
	// MostWatches is how many of them were about the same: a kind, and which objects of it.
	MostWatches int
}

// Fold sorts audit records of one user into classes. Watches are open connections and leases are the price of being
// elected; both are counted by FoldUpkeep.
func Fold(records []localcluster.AuditRecord, user string) Requests {
	var r Requests
	for _, record := range records {
		if record.User != user || isUpkeep(record) {
			continue
		}
		switch {
		case record.Resource == "events":
			r.Events++
		case record.Subresource == "status":
			r.Status++
		case isRead(record):
			r.Reads++
		case record.Verb == "delete", record.Verb == "deletecollection":
			r.Deletes++
		case record.Code == http.StatusCreated:
			r.Creates++
		default:
			r.Updates++
		}
	}
	return r
}

// FoldUpkeep counts what Fold leaves out.
func FoldUpkeep(records []localcluster.AuditRecord, user string) Upkeep {
	var u Upkeep
	alike := map[string]int{}
	for _, record := range records {
		switch {
		case record.User != user:
		case record.Verb == "watch":
			u.Watches++
			about := watched(record)
			alike[about]++
			u.MostWatches = max(u.MostWatches, alike[about])
		case isUpkeep(record):
			u.Leases++
		}
	}
	return u
}

// watched is what a watch was about: two of one kind with other selectors, or in other namespaces, are two watches.
func watched(r localcluster.AuditRecord) string {
	about := r.Group + "/" + r.Resource + " " + r.Namespace
	if uri, err := url.Parse(r.URI); err == nil {
		q := uri.Query()
		about += " " + q.Get("labelSelector") + " " + q.Get("fieldSelector")
	}
	return about
}

// isUpkeep recognises what no object of a user is the reason of.
func isUpkeep(r localcluster.AuditRecord) bool {
	return r.Verb == "watch" || r.Resource == "leases" || r.Resource == "events" && strings.HasPrefix(r.Name, electionID+".")
}

// isRead recognises what changes nothing.
func isRead(r localcluster.AuditRecord) bool {
	return r.Verb == "get" || r.Verb == "list" || isReview(r)
}

// readsOutside counts a user's reads outside a namespace by verb and resource, or by verb and path where there is no resource. Whoever
// reads in all namespaces reads outside any.
func readsOutside(records []localcluster.AuditRecord, user, namespace string) map[string]int {
	reads := map[string]int{}
	for _, r := range records {
		if r.User != user || !isRead(r) || r.Namespace == namespace {
			continue
		}
		what := r.Resource
		if what == "" {
			what, _, _ = strings.Cut(r.URI, "?")
		}
		reads[r.Verb+" "+what]++
	}
	return reads
}

// isReview recognises questions in the form of objects, such as who one is. Nothing is stored.
func isReview(r localcluster.AuditRecord) bool { return strings.HasSuffix(r.Resource, "reviews") }

// Refused counts requests that were answered with an error, by code. A conflict is work that is done twice; too many
// requests are the API server's way of saying that it cannot keep up.
func Refused(records []localcluster.AuditRecord, user string) map[int]int {
	codes := map[int]int{}
	for _, r := range RefusedOnly(records, user) {
		codes[r.Code]++
	}
	return codes
}

// RefusedOnly are the requests of a user that were answered with an error, for Transcript.
func RefusedOnly(records []localcluster.AuditRecord, user string) []localcluster.AuditRecord {
	var refused []localcluster.AuditRecord
	for _, r := range records {
		if r.User == user && r.Code >= http.StatusBadRequest {
			refused = append(refused, r)
		}
	}
	return refused
}

// StatusWritesPerObject counts status writes by object.
func StatusWritesPerObject(records []localcluster.AuditRecord, user string) map[string]int {
	per := map[string]int{}
	for _, record := range records {
		if record.User == user && record.Subresource == "status" {
			per[record.Resource+"/"+record.Name]++
		}
	}
	return per
}

// Transcript lists a user's requests in the order they were answered, for the message of a failed count.
func Transcript(records []localcluster.AuditRecord, user string) string {
	var lines []string
	slices.SortStableFunc(records, func(a, b localcluster.AuditRecord) int {
		return cmp.Compare(a.Answered.UnixNano(), b.Answered.UnixNano())
	})
	for _, r := range records {
		if r.User == user {
			lines = append(lines, fmt.Sprintf("%s %s %s/%s/%s %d", r.Answered.Format("05.000"), r.Verb, r.Resource, r.Name, r.Subresource, r.Code))
		}
	}
	return strings.Join(lines, "\n")
}

// SimulatorLag is, for each Deployment, how long after it was made by one user another reported it as rolled out. While
// that is short beside the time until a graph is Ready, the simulator is not what anybody waits for.
func SimulatorLag(records []localcluster.AuditRecord, maker, simulator string) Distribution {
	made, reported := map[string]time.Time{}, map[string]time.Time{}
	for _, r := range records {
		key := r.Namespace + "/" + r.Name
		switch {
		case r.Resource != "deployments":
		case r.User == maker && r.Subresource == "" && r.Code == http.StatusCreated:
			made[key] = r.Answered
		case r.User == simulator && r.Subresource == "status" && r.Code == http.StatusOK:
			if first, ok := reported[key]; !ok || r.Answered.Before(first) {
				reported[key] = r.Answered
			}
		}
	}
	var lags []float64
	for key, at := range made {
		if answered, ok := reported[key]; ok {
			lags = append(lags, answered.Sub(at).Seconds())
		}
	}
	return Distribute(lags)
}
