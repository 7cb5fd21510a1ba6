// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// SweepAbandoned removes state directories matching pattern that a killed process left behind.
func SweepAbandoned(pattern string) error {
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("look for abandoned state %s: %w", pattern, err)
	}
	for _, dir := range dirs {
		// The record is written by a holder of the lock, so where there is one and no lock, the holder is dead. Before that
		// the lock must not be touched: its owner may be about to take it.
		if _, err := os.Stat(filepath.Join(dir, recordFile)); err != nil {
			continue
		}
		lock, err := tryLock(filepath.Join(dir, lockFile))
		if err != nil {
			continue // in use, another user's, or somebody was faster
		}
		if err := removeState(dir, lock); err != nil {
			return fmt.Errorf("remove abandoned state %s: %w", dir, err)
		}
	}
	return nil
}
