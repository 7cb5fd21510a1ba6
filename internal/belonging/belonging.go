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
	// Once objects are created where they are missing and never changed: what is in them, data or an autoscaler's number,
	// outlives the opinion they were made with.
	Once
	// Retained objects are Once and belong to nobody: they stay when what they were made for goes.
	Retained
)

// IsShared tells whether an object may have several owners.
func (b Belonging) IsShared() bool { return b == Shared || b == Borrowed }

// IsMadeOnce tells whether an object is left as it is once it is there.
func (b Belonging) IsMadeOnce() bool { return b == Once || b == Retained }
