// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// recipeFile lies next to a built binary and says what it was built from.
	recipeFile = "recipe"
	// extrasDirectory lies next to a built binary and holds the files it needs at run time.
	extrasDirectory = "manifests"
	// progressInterval is how often a running build says that it is still running.
	progressInterval = 15 * time.Second
	// downloadPause is how long a module proxy that refuses further downloads is left alone.
	downloadPause = 30 * time.Second
	// buildAttempts bounds how often a build is repeated after a failed download.
	buildAttempts = 4
)

// Binaries maps component names to the paths of their executables.
type Binaries map[string]string

// EnsureBinaries returns the paths of the named components and builds those that the cache lacks.
// Any number of processes may call it at once: each component is built by one of them while the others wait.
func EnsureBinaries(ctx context.Context, names []string, progress io.Writer) (Binaries, error) {
	chosen, err := selectArtefacts(names)
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	b := builder{cache: cache, progress: writerOrDiscard(progress), compile: compileWithGo, pause: downloadPause}
	binaries := Binaries{}
	for _, a := range chosen {
		path, err := b.ensure(ctx, a)
		if err != nil {
			return nil, err
		}
		binaries[a.name] = path
	}
	return binaries, nil
}

// BinDir returns one directory with links to every component, building what is missing.
func BinDir(ctx context.Context, progress io.Writer) (string, error) {
	binaries, err := EnsureBinaries(ctx, Components(), progress)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	// The name depends on every recipe, so an upgrade gets a directory of its own and a running shell keeps the old one.
	digest := sha256.New()
	for _, a := range catalogue() {
		recipe, err := a.recipe()
		if err != nil {
			return "", err
		}
		_, _ = io.WriteString(digest, recipe)
	}
	dir := filepath.Join(cache, "bin-"+hex.EncodeToString(digest.Sum(nil))[:12])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create directory of binaries: %w", err)
	}
	for name, path := range binaries {
		target, err := filepath.Rel(dir, path)
		if err != nil {
			return "", fmt.Errorf("link %s: %w", name, err)
		}
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("link %s: %w", name, err)
		}
	}
	return dir, nil
}

// builder fills the cache. Its compile step can be replaced so that locking and retrying are testable in milliseconds.
type builder struct {
	cache    string
	progress io.Writer
	compile  func(ctx context.Context, a artefact, work, out string) error
	pause    time.Duration
}

func (b builder) directory(a artefact) string {
	return filepath.Join(b.cache, a.name+"-"+a.version)
}

// ensure returns the path of the binary of a, which it builds if the cache has none or one from another recipe.
func (b builder) ensure(ctx context.Context, a artefact) (string, error) {
	binary := filepath.Join(b.directory(a), a.name)
	recipe, err := a.recipe()
	if err != nil {
		return "", err
	}
	if b.cached(a, recipe) {
		return binary, nil
	}
	if err := os.MkdirAll(b.cache, 0o755); err != nil {
		return "", fmt.Errorf("create cache: %w", err)
	}
	lock, err := waitLock(ctx, b.directory(a)+".lock", func() {
		_, _ = fmt.Fprintf(b.progress, "waiting for another build of %s %s\n", a.name, a.version)
	})
	if err != nil {
		return "", fmt.Errorf("build %s: %w", a.name, err)
	}
	defer func() { _ = lock.release() }()
	if b.cached(a, recipe) {
		return binary, nil
	}
	if err := b.build(ctx, a, recipe); err != nil {
		return "", fmt.Errorf("build %s %s: %w", a.name, a.version, err)
	}
	return binary, nil
}

func (b builder) cached(a artefact, recipe string) bool {
	built, err := os.ReadFile(filepath.Join(b.directory(a), recipeFile))
	return err == nil && string(built) == recipe
}

// build compiles into a scratch directory and renames it into place, so that a binary in the cache is always whole.
func (b builder) build(ctx context.Context, a artefact, recipe string) error {
	scratch := b.directory(a) + ".partial"
	// A killed build leaves its scratch directory; the lock says that nobody uses it now.
	if err := os.RemoveAll(scratch); err != nil {
		return fmt.Errorf("clear scratch directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	work, out := filepath.Join(scratch, "module"), filepath.Join(scratch, "out")
	if err := a.writeModule(work); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("create output directory: %w", err)
	}
	if err := b.compileWithRetries(ctx, a, work, out); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, recipeFile), []byte(recipe), 0o644); err != nil {
		return fmt.Errorf("record recipe: %w", err)
	}
	if err := os.RemoveAll(b.directory(a)); err != nil {
		return fmt.Errorf("remove outdated build: %w", err)
	}
	if err := os.Rename(out, b.directory(a)); err != nil {
		return fmt.Errorf("move into the cache: %w", err)
	}
	return nil
}

// compileWithRetries repeats a compilation whose downloads failed for a reason that passes.
func (b builder) compileWithRetries(ctx context.Context, a artefact, work, out string) error {
	for attempt := 1; ; attempt++ {
		stop := reportElapsed(b.progress, fmt.Sprintf("building %s %s", a.name, a.version))
		err := b.compile(ctx, a, work, out)
		stop()
		if err == nil {
			_, _ = fmt.Fprintf(b.progress, "built %s %s\n", a.name, a.version)
			return nil
		}
		if attempt == buildAttempts || !downloadMayRecover(err) || ctx.Err() != nil {
			return err
		}
		_, _ = fmt.Fprintf(b.progress, "a download for %s failed, trying again in %s\n", a.name, b.pause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(b.pause):
		}
	}
}

// reportElapsed writes what is going on and for how long, until the returned function is called.
func reportElapsed(progress io.Writer, what string) (stop func()) {
	_, _ = fmt.Fprintln(progress, what)
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for elapsed := progressInterval; ; elapsed += progressInterval {
			select {
			case <-done:
				return
			case <-ticker.C:
				_, _ = fmt.Fprintf(progress, "%s, %s\n", what, elapsed)
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// downloadMayRecover tells a refused or broken download from a build that will fail again.
func downloadMayRecover(err error) bool {
	text := err.Error()
	for _, sign := range []string{
		"429", "Too Many Requests", "502 Bad Gateway", "503 Service", "504 Gateway",
		"connection reset", "i/o timeout", "TLS handshake timeout", "unexpected EOF",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// recipe names everything that decides what the binary does; the Go version is left out on purpose, so that upgrading
// Go does not cost ten minutes.
func (a artefact) recipe() (string, error) {
	digest := sha256.New()
	for _, kind := range []string{"mod", "sum"} {
		content, err := a.moduleFile(kind)
		if err != nil {
			return "", err
		}
		_, _ = digest.Write(content)
	}
	return strings.Join([]string{
		a.pkg, a.version, a.linkerFlags(), strings.Join(a.extras, " "), hex.EncodeToString(digest.Sum(nil)),
	}, "\n") + "\n", nil
}

// writeModule unpacks the pinned module files under the names the go command expects.
func (a artefact) writeModule(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create module directory: %w", err)
	}
	for _, kind := range []string{"mod", "sum"} {
		content, err := a.moduleFile(kind)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "go."+kind), content, 0o644); err != nil {
			return fmt.Errorf("write go.%s: %w", kind, err)
		}
	}
	return nil
}

func writerOrDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
