// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tally counts what was written and why, so that a write that nobody needed can be seen.
package tally

import (
	"context"
	"sync/atomic"
)

// Reason is why something was written.
type Reason string

// All reasons there are.
const (
	Created    Reason = "created"    // it was not there
	Changed    Reason = "changed"    // the spec or its surroundings want it otherwise
	Drifted    Reason = "drifted"    // somebody else changed what is ours
	Adopted    Reason = "adopted"    // it had lost its owner
	Pruned     Reason = "pruned"     // nobody wants it any longer
	Released   Reason = "released"   // it was let go: an owner reference or a finalizer
	Scaled     Reason = "scaled"     // its replicas changed through the scale subresource or an adapter
	Transition Reason = "transition" // a status that says something else
	Progress   Reason = "progress"   // a status that says how far it is
)

// Counter is told of every write that succeeded. Nobody has to listen.
type Counter func(kind string, reason Reason)

// Wrote counts a write, also for the pass that the context belongs to.
func (c Counter) Wrote(ctx context.Context, kind string, reason Reason) {
	if pass, ok := ctx.Value(passKey{}).(*Pass); ok {
		pass.writes.Add(1)
	}
	if c != nil {
		c(kind, reason)
	}
}

type passKey struct{}

// Pass counts the writes of one pass of a controller.
type Pass struct{ writes atomic.Int64 }

// Begin returns a context whose writes are counted.
func Begin(ctx context.Context) (context.Context, *Pass) {
	pass := &Pass{}
	return context.WithValue(ctx, passKey{}, pass), pass
}

// Writes is how many writes there were so far.
func (p *Pass) Writes() int64 { return p.writes.Load() }
