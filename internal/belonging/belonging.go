// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package belonging says how an object belongs to what it was made for. Renderers decide it, the applier acts on it.
package belonging

// Belonging is how an object belongs to its owner.
type Belonging int

const (
	// Owned objects have one owner that controls them. They are kept as rendered and go with it.
	Owned Belonging = iota
	// Shared objects are the same for any number of owners, none of which controls them. They go with the last.
	Shared
	// Borrowed objects are Shared unless somebody else made them; then they are used as they are.
	Borrowed
	// Once objects are created where they are missing and never changed or taken away before their owner goes: data
	// outlives opinions about it.
	Once
)

// IsShared tells whether an object may have several owners.
func (b Belonging) IsShared() bool { return b == Shared || b == Borrowed }
