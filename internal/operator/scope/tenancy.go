// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import "time"

// tenancy is what the cluster-wide operator knows about a namespace that has, or had, an operator of its own.
type tenancy struct {
	// lease is nil after it was deleted, which was noticed at gone.
	lease *sighting
	gone  time.Time
}

// seen is the tenancy after a look at the Lease. What is older than what is known changes nothing.
func (t tenancy) seen(c claim, now time.Time) tenancy {
	if t.lease == nil {
		return tenancy{lease: &sighting{claim: c, at: now}}
	}
	if !older(t.lease.version, c.version) {
		return t
	}
	after := t.lease.see(c, now)
	return tenancy{lease: &after}
}

// removed is the tenancy after the Lease of that claim was deleted.
func (t tenancy) removed(c claim, now time.Time) tenancy {
	if t.lease == nil || t.lease.uid != c.uid {
		return t
	}
	return tenancy{gone: now}
}

// absentFrom tells whether a list of that version, which does not have the Lease, is news.
func (t tenancy) absentFrom(version string) bool {
	return t.lease != nil && older(t.lease.version, version)
}

// free is when the cluster-wide operator may work in the namespace: when the Lease ends, or a moment after it was deleted,
// because whoever held a Lease that a user deleted learns of it at the same time.
func (t tenancy) free() time.Time {
	if t.lease == nil {
		return t.gone.Add(straggle)
	}
	return t.lease.expires()
}

// waits tells whether the holder waits to hear that the cluster-wide operator has let go.
func (t tenancy) waits() bool {
	return t.lease != nil && t.lease.ours() && !t.lease.acknowledged()
}
