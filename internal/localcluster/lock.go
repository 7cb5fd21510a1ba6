// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("held by another process")

// lockPoll is how often a waiting process looks whether a lock became free.
const lockPoll = 50 * time.Millisecond

// fileLock is an advisory lock that the kernel frees when its holder dies.
// Open-file-description locks are used because, unlike flock(2), they can be tested without being taken: a status query
// must never make a starting supervisor believe that another one runs.
type fileLock struct {
	file *os.File
}

// tryLock takes the lock at path or fails with errLocked.
func tryLock(path string) (*fileLock, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		request := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
		err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &request)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, errLocked), file.Close())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		if sameFile(file, path) {
			return &fileLock{file: file}, nil
		}
		// The previous holder removed the file between our open and our lock; what we hold guards nothing.
		_ = file.Close()
	}
}

// waitLock takes the lock at path, waiting for its holder if need be. It calls waiting once before it waits.
func waitLock(ctx context.Context, path string, waiting func()) (*fileLock, error) {
	lock, err := tryLock(path)
	if !errors.Is(err, errLocked) {
		return lock, err
	}
	waiting()
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for lock %s: %w", path, context.Cause(ctx))
		case <-ticker.C:
		}
		lock, err := tryLock(path)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
	}
}

// lockHeld reports whether some process holds the lock at path, without touching it.
func lockHeld(path string) (bool, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer func() { _ = file.Close() }()
	probe := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, &probe); err != nil {
		return false, fmt.Errorf("test lock %s: %w", path, err)
	}
	return probe.Type != unix.F_UNLCK, nil
}

// release frees the lock and leaves its file in place.
func (l *fileLock) release() error {
	return l.file.Close()
}

// releaseAndRemove removes the lock file while the lock is still held, so that nobody can lock a file that is on its way out.
func (l *fileLock) releaseAndRemove() error {
	return errors.Join(os.Remove(l.file.Name()), l.file.Close())
}

func sameFile(file *os.File, path string) bool {
	held, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(held, named)
}
