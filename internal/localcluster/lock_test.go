// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

func TestLockExcludesASecondHolderUntilItIsReleased(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(path); !errors.Is(err, errLocked) {
		t.Fatalf("second lock: %v, want %v", err, errLocked)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	second, err := tryLock(path)
	if err != nil {
		t.Fatalf("lock after release: %v", err)
	}
	if err := second.release(); err != nil {
		t.Fatal(err)
	}
}

func TestTestingALockDoesNotTakeIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	assertHeld(t, path, false)
	lock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	assertHeld(t, path, true)
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	assertHeld(t, path, false)
}

func TestLockOfARemovedFileGuardsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	waiting, locked := make(chan struct{}), make(chan *fileLock, 1)
	go func() {
		lock, err := waitLock(t.Context(), path, func() { close(waiting) })
		if err != nil {
			t.Error(err)
		}
		locked <- lock
	}()
	<-waiting
	if err := first.releaseAndRemove(); err != nil {
		t.Fatal(err)
	}
	second := <-locked
	assertHeld(t, path, true)
	if err := second.release(); err != nil {
		t.Fatal(err)
	}
}

func TestWaitingForALockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := tryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.release() }()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := waitLock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("wait for a held lock: %v, want %v", err, context.Canceled)
	}
}

func assertHeld(t *testing.T, path string, want bool) {
	t.Helper()
	held, err := lockHeld(path)
	if err != nil {
		t.Fatal(err)
	}
	if held != want {
		t.Fatalf("lock held: %t, want %t", held, want)
	}
}
