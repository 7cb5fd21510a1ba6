// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package scaling

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// untold holds changes of graphs that no status tells of yet. An autoscaler may write an adapter at any time, and a status
// that meets a newer object is computed again in a pass that no longer changes the graph.
type untold struct {
	mu sync.Mutex
	by map[types.UID]Scaling
}

// add takes note of a change. It continues one that is still untold.
func (u *untold) add(adapter types.UID, s Scaling) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.by = map[types.UID]Scaling{}
	}
	if earlier, ok := u.by[adapter]; ok {
		s.From = earlier.From
	}
	u.by[adapter] = s
}

// get returns the change that an adapter has to tell of, nil for none.
func (u *untold) get(adapter types.UID) *Scaling {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s, ok := u.by[adapter]; ok {
		return &s
	}
	return nil
}

func (u *untold) drop(adapter types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.by, adapter)
}
