// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dynamo-operator/dynamo-operator/internal/localcluster"
)

// Requests are what one user asked of the API server, by class.
type Requests struct {
	Creates, Updates, Deletes, Status, Events, Reads int
}

// Fold sorts audit records of one user into classes. Watches are open connections and leases are the price of being
// elected; both are counted elsewhere.
func Fold(records []localcluster.AuditRecord, user string) Requests {
	var r Requests
	for _, record := range records {
		if record.User != user || record.Verb == "watch" || record.Resource == "leases" {
			continue
		}
		switch {
		case record.Resource == "events":
			r.Events++
		case record.Subresource == "status":
			r.Status++
		case record.Verb == "get", record.Verb == "list":
			r.Reads++
		case record.Verb == "delete", record.Verb == "deletecollection":
			r.Deletes++
		case record.Code == 201:
			r.Creates++
		default:
			r.Updates++
		}
	}
	return r
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
