// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"slices"
	"time"
)

// Phase is what an authority is for at the moment.
type Phase string

// The life of an authority.
const (
	// Next is published and signs nothing yet: whoever verifies has to know an authority before it is used.
	Next Phase = "next"
	// Signing is the one that signs. There is at most one.
	Signing Phase = "signing"
	// Retired is published for the sake of what it has signed, and has no key any more.
	Retired Phase = "retired"
)

// mostAdopted bounds how many authorities of others are kept: a configuration can carry a whole list of public ones.
const mostAdopted = 8

// Authority is one certificate authority.
type Authority struct {
	Phase Phase `json:"phase"`
	// Certificate and Key are PEM. The certificate also serves as the identity of the authority.
	Certificate string `json:"certificate"`
	Key         string `json:"key,omitempty"`
	// Created is when it was made.
	Created time.Time `json:"created"`
	// Published is when it was first read back from every webhook configuration.
	Published time.Time `json:"published,omitzero"`
	// Until is when the last that a retired one has signed is sure to have expired.
	Until time.Time `json:"until,omitzero"`
	// Expires is what the certificate says.
	Expires time.Time `json:"-"`
}

func (a Authority) equal(b Authority) bool {
	return a.Phase == b.Phase && a.Certificate == b.Certificate && a.Key == b.Key &&
		a.Created.Equal(b.Created) && a.Published.Equal(b.Published) && a.Until.Equal(b.Until)
}

// State is all authorities. Those of a state are published, without exception.
type State struct {
	Authorities []Authority `json:"authorities"`
}

// Equal tells whether there is nothing to write.
func (s State) Equal(other State) bool {
	return slices.EqualFunc(s.Authorities, other.Authorities, Authority.equal)
}

// in returns the first authority in a phase, nil if there is none.
func (s State) in(phase Phase) *Authority {
	for i := range s.Authorities {
		if s.Authorities[i].Phase == phase {
			return &s.Authorities[i]
		}
	}
	return nil
}

// has tells whether the authority with this certificate is published.
func (s State) has(certificate string) bool {
	return slices.ContainsFunc(s.Authorities, func(a Authority) bool { return a.Certificate == certificate })
}

// Facts are what a step depends on besides the state and the time.
type Facts struct {
	// Rotate tells that somebody asked for a new authority.
	Rotate bool
	// Published tells whether every webhook configuration that exists carries a certificate.
	Published func(certificate string) bool
	// Found are authorities that were published by somebody, with their certificate and its end. They are looked at only
	// where the state has none that could sign.
	Found []Authority
}

// Policy is how long things last.
type Policy struct {
	AuthorityLife time.Duration
	LeafLife      time.Duration
	// Settle is how long API servers may take to notice that a configuration changed.
	Settle time.Duration
	// Make makes a new authority.
	Make func(now time.Time) (Authority, error)
}

// Plan is what a step leads to.
type Plan struct {
	State State
	// Wake is when there is something to do again, if nothing happens before.
	Wake time.Time
	// Rotated tells that a new authority signs from now on.
	Rotated bool
}

// Next is the step that is due now. It is the same for every replica, so it does not matter which of them takes it.
func (p Policy) Next(s State, now time.Time, f Facts) (Plan, error) {
	plan := Plan{State: State{Authorities: slices.Clone(s.Authorities)}}
	drop(&plan.State, now)
	if err := p.ensureSigner(&plan, now, f); err != nil {
		return Plan{}, err
	}
	for i, a := range plan.State.Authorities {
		if a.Phase != Retired && a.Published.IsZero() && f.Published(a.Certificate) {
			plan.State.Authorities[i].Published = now
		}
	}
	p.promote(&plan, now)
	if err := p.startRotation(&plan, now, f.Rotate); err != nil {
		return Plan{}, err
	}
	plan.Wake = p.wake(plan.State, now)
	return plan, nil
}

// drop removes what nobody can need any more.
func drop(s *State, now time.Time) {
	s.Authorities = slices.DeleteFunc(s.Authorities, func(a Authority) bool {
		return !now.Before(a.Expires) || (a.Phase == Retired && !now.Before(a.Until))
	})
}

// ensureSigner sees to it that something signs, now and not after a while: without it nothing works anyway.
func (p Policy) ensureSigner(plan *Plan, now time.Time, f Facts) error {
	if plan.State.in(Signing) != nil {
		return nil
	}
	plan.Rotated = true
	if next := plan.State.in(Next); next != nil {
		next.Phase = Signing
		return nil
	}
	// Replicas that we know nothing of may still show what these have signed.
	for _, a := range f.Found[:min(len(f.Found), mostAdopted)] {
		if now.Before(a.Expires) && !plan.State.has(a.Certificate) {
			a.Created = now
			plan.State.Authorities = append(plan.State.Authorities, p.retire(a, now))
		}
	}
	a, err := p.Make(now)
	a.Phase = Signing
	plan.State.Authorities = append([]Authority{a}, plan.State.Authorities...)
	return err
}

// retire takes the key away from an authority.
func (p Policy) retire(a Authority, now time.Time) Authority {
	// A replica that has not heard of it yet may sign for a moment longer.
	a.Phase, a.Key, a.Until = Retired, "", now.Add(p.LeafLife+p.Settle)
	return a
}

// promote lets the next authority sign as soon as every API server is sure to know it.
func (p Policy) promote(plan *Plan, now time.Time) {
	next, signing := plan.State.in(Next), plan.State.in(Signing)
	if next == nil || !p.established(*next, now) {
		return
	}
	*signing = p.retire(*signing, now)
	next.Phase = Signing
	plan.Rotated = true
}

// established tells whether every API server is sure to know an authority.
func (p Policy) established(a Authority, now time.Time) bool {
	return !a.Published.IsZero() && !now.Before(a.Published.Add(p.Settle))
}

// startRotation makes the next authority when it is time, or when it was asked for and is not under way.
func (p Policy) startRotation(plan *Plan, now time.Time, asked bool) error {
	if plan.State.in(Next) != nil {
		return nil
	}
	if now.Before(p.rotation(*plan.State.in(Signing))) && (!asked || plan.Rotated) {
		return nil
	}
	a, err := p.Make(now)
	a.Phase = Next
	plan.State.Authorities = append(plan.State.Authorities, a)
	return err
}

// rotation is when an authority needs a successor: at two thirds of its life, or of what has become its life since.
func (p Policy) rotation(a Authority) time.Time {
	life := min(a.Expires.Sub(a.Created), p.AuthorityLife)
	return a.Created.Add(life * 2 / 3)
}

// wake is the earliest moment at which a step would lead somewhere.
func (p Policy) wake(s State, now time.Time) time.Time {
	wake := now.Add(p.AuthorityLife)
	for _, a := range s.Authorities {
		moments := []time.Time{a.Expires}
		switch {
		case a.Phase == Retired:
			moments = append(moments, a.Until)
		case a.Phase == Signing && s.in(Next) == nil:
			moments = append(moments, p.rotation(a))
		}
		if !a.Published.IsZero() && !p.established(a, now) {
			moments = append(moments, a.Published.Add(p.Settle))
		}
		for _, m := range moments {
			if m.Before(wake) {
				wake = m
			}
		}
	}
	return wake
}

// Cover returns a state in which the authority of a leaf is published until the leaf ends. It always is, unless the Secret
// was lost or went back to an old backup, or another replica believes that leaves end earlier.
func (s State) Cover(issuer string, end, now time.Time) State {
	covered := State{Authorities: slices.Clone(s.Authorities)}
	if !now.Before(end) {
		return covered
	}
	for i, a := range covered.Authorities {
		if a.Certificate != issuer {
			continue
		}
		if a.Phase == Retired && a.Until.Before(end) {
			covered.Authorities[i].Until = end
		}
		return covered
	}
	lost := Authority{Phase: Retired, Certificate: issuer, Created: now, Until: end, Expires: end}
	covered.Authorities = append(covered.Authorities, lost)
	return covered
}
