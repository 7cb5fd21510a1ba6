// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dynamo-operator/dynamo-operator/internal/names"
)

// act is what a restricted operator does next about its Lease.
type act string

const (
	actWait  act = "wait"
	actLook  act = "look"
	actMake  act = "make"
	actTake  act = "take"
	actRenew act = "renew"
	// actBegin starts work, actYield ends it because the Lease is gone.
	actBegin act = "begin"
	actYield act = "yield"
	// actLost and actLate end the operator: somebody else has the Lease, or it was not renewed in time.
	actLost act = "lost"
	actLate act = "late"
)

// holding is what a restricted operator knows about its Lease. It decides, and Holder acts.
type holding struct {
	timing Timing
	// self is what it says about itself.
	self note

	// known tells that lease is what the server had when it was last heard of, nil for none.
	known bool
	lease *sighting
	// held tells that the Lease was ours after our last write.
	held bool
	// renewed is when the last request that made, took or renewed the Lease was sent.
	renewed time.Time
	// pause is until when nothing is asked after a failure.
	pause time.Time
	// settled is when work may begin without an acknowledgement.
	settled time.Time
	working bool
}

// next returns what to do, and with actWait until when.
func (h holding) next(now time.Time) (act, time.Time) {
	switch {
	case h.held && !now.Before(h.deadline()):
		return actLate, now
	case h.held && h.known && h.lease == nil:
		return actYield, now
	case h.held && h.known && h.lease.holder != h.self.Holder:
		return actLost, now
	case now.Before(h.pause) && h.held:
		return actWait, earliest(h.pause, h.deadline())
	case now.Before(h.pause):
		return actWait, h.pause
	case !h.known:
		return actLook, now
	case h.held:
		return h.keep(now)
	}
	return h.wish(now)
}

// deadline is when work ends unless the Lease is renewed before.
func (h holding) deadline() time.Time { return h.renewed.Add(h.timing.patience()) }

// keep is for a Lease that is ours.
func (h holding) keep(now time.Time) (act, time.Time) {
	if !h.working && (h.lease.acknowledged() || !now.Before(h.settled)) {
		return actBegin, now
	}
	renewal := h.renewed.Add(h.timing.Renew)
	if !now.Before(renewal) {
		return actRenew, now
	}
	if !h.working {
		return actWait, earliest(renewal, h.settled)
	}
	return actWait, renewal
}

// wish is for a Lease that is not ours.
func (h holding) wish(now time.Time) (act, time.Time) {
	switch {
	case h.lease == nil:
		return actMake, now
	case h.lease.note.Released, h.inherits(), !now.Before(h.lease.expires()):
		return actTake, now
	}
	return actWait, h.lease.expires()
}

// inherits tells whether whoever has the Lease is gone for certain: it is ourselves, whose answer was lost, or a
// predecessor that led the election we lead, or ran in the pod we run in.
func (h holding) inherits() bool {
	n := h.lease.note
	return h.lease.holder == h.self.Holder ||
		n.Election != "" && n.Election == h.self.Election ||
		n.Pod != "" && n.Pod == h.self.Pod
}

// settleFrom is how long to wait, after the Lease was made or taken, for a cluster-wide operator that does not answer.
//
// One of ours has answered the predecessor and will answer again, so its answer is waited for. Where nobody did, there is
// none or it is of the reference, and either has kept out all the time if the Lease did not expire in between. That is
// the one place where a time of another machine is compared with ours, as the reference does.
func (h holding) settleFrom(now time.Time) time.Duration {
	l := h.lease
	if l == nil || !l.note.Settled || l.acknowledged() {
		return h.timing.settle()
	}
	kept := l.duration - Timing{Duration: l.duration}.margin()
	if now.Before(l.expires()) && now.Before(l.renewed.Add(kept)) {
		return 0
	}
	return h.timing.settle()
}

// adopted is the state after the Lease was made or taken by a request sent at start and answered now.
func (h holding) adopted(l *coordinationv1.Lease, start, now time.Time) holding {
	h.settled = now.Add(h.settleFrom(start))
	h.known, h.held, h.renewed, h.pause = true, true, start, time.Time{}
	h.lease = &sighting{claim: read(l), at: now}
	return h
}

// renewedBy is the state after a renewal sent at start and answered now.
func (h holding) renewedBy(l *coordinationv1.Lease, start, now time.Time) holding {
	h.known, h.renewed, h.pause = true, start, time.Time{}
	h.lease = &sighting{claim: read(l), at: now}
	return h
}

// seen is the state after a look at the Lease, nil for none.
func (h holding) seen(l *coordinationv1.Lease, now time.Time) holding {
	h.known = true
	if l == nil {
		h.lease = nil
		return h
	}
	var before sighting
	if h.lease != nil {
		before = *h.lease
	}
	after := before.see(read(l), now)
	h.lease = &after
	return h
}

// yielded is the state after the Lease was gone.
func (h holding) yielded() holding {
	h.held, h.working = false, false
	return h
}

// write is the Lease as it is to be stored, made of what is there, nil for nothing.
func (h holding) write(there *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{}
	if there != nil {
		l = there.DeepCopy()
	}
	l.Name = names.ScopeLease
	l.Annotations = maps.Clone(l.Annotations)
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if !h.held {
		l.Spec.AcquireTime = &metav1.MicroTime{Time: now}
		if there != nil {
			l.Spec.LeaseTransitions = new(transitions(there) + 1)
		}
		delete(l.Annotations, names.AnnotationReleasedTo)
	}
	self := h.self
	self.Settled = h.working || !h.held && h.settleFrom(now) == 0
	l.Annotations[names.AnnotationScope] = self.String()
	l.Spec.HolderIdentity = &self.Holder
	l.Spec.LeaseDurationSeconds = new(int32(h.timing.Duration / time.Second))
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	return l
}

// release is the Lease as it is handed over: free for a successor at once, and for the cluster-wide operator soon.
func (h holding) release(there *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	l := h.write(there, now)
	self := h.self
	self.Settled, self.Released = h.working, true
	l.Annotations[names.AnnotationScope] = self.String()
	l.Spec.LeaseDurationSeconds = new(int32(min(handOver, h.timing.Duration) / time.Second))
	return l
}

func transitions(l *coordinationv1.Lease) int32 {
	if l.Spec.LeaseTransitions == nil {
		return 0
	}
	return *l.Spec.LeaseTransitions
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
