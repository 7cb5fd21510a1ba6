// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeCompiler stands in for the go command and counts how often it is asked.
type fakeCompiler struct {
	calls    atomic.Int32
	failures []error // returned by the first calls, in order
}

func (f *fakeCompiler) compile(_ context.Context, a artefact, work, out string) error {
	call := int(f.calls.Add(1))
	if call <= len(f.failures) {
		return f.failures[call-1]
	}
	if _, err := os.Stat(filepath.Join(work, "go.mod")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, a.name), []byte("binary"), 0o755)
}

func (f *fakeCompiler) builder(t *testing.T, progress *lockedBuffer) builder {
	t.Helper()
	return builder{cache: t.TempDir(), progress: progress, compile: f.compile}
}

// lockedBuffer is a progress writer for several builds at once.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func testArtefact() artefact {
	return artefact{name: Etcd, version: "v0.0.1", module: "etcd", pkg: "example.test/etcd"}
}

func TestConcurrentBuildsCompileOnce(t *testing.T) {
	t.Parallel()
	compiler, progress := &fakeCompiler{}, &lockedBuffer{}
	b := compiler.builder(t, progress)
	var builds sync.WaitGroup
	for range 8 {
		builds.Go(func() {
			path, err := b.ensure(t.Context(), testArtefact())
			if err != nil {
				t.Error(err)
				return
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != "binary" {
				t.Errorf("binary is %q, %v", content, err)
			}
		})
	}
	builds.Wait()
	if got := compiler.calls.Load(); got != 1 {
		t.Errorf("compiled %d times, want once", got)
	}
}

func TestSecondBuildSaysThatItWaits(t *testing.T) {
	t.Parallel()
	compiler, progress := &fakeCompiler{}, &lockedBuffer{}
	b := compiler.builder(t, progress)
	lock, err := tryLock(b.directory(testArtefact()) + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := b.ensure(t.Context(), testArtefact())
		done <- err
	}()
	eventually(t, "message about waiting", func() bool {
		return strings.Contains(progress.String(), "waiting for another build of etcd v0.0.1")
	})
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestBinaryFromAnotherRecipeIsBuiltAgain(t *testing.T) {
	t.Parallel()
	compiler := &fakeCompiler{}
	b := compiler.builder(t, &lockedBuffer{})
	changed := testArtefact()
	changed.stamps = []string{"example.test/version=2"}
	for _, a := range []artefact{testArtefact(), testArtefact(), changed, changed} {
		if _, err := b.ensure(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if got := compiler.calls.Load(); got != 2 {
		t.Errorf("compiled %d times, want 2", got)
	}
}

func TestRemainsOfAKilledBuildDoNotMatter(t *testing.T) {
	t.Parallel()
	b := (&fakeCompiler{}).builder(t, &lockedBuffer{})
	scratch := b.directory(testArtefact()) + ".partial"
	if err := os.MkdirAll(filepath.Join(scratch, "out", "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := b.ensure(t.Context(), testArtefact())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "half")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("remains are in the cache: %v", err)
	}
	if _, err := os.Stat(scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("scratch directory is left: %v", err)
	}
}

func TestRefusedDownloadIsRepeated(t *testing.T) {
	t.Parallel()
	refused := errors.New("reading example.test/@v/v1.zip: 429 Too Many Requests")
	compiler, progress := &fakeCompiler{failures: []error{refused, refused}}, &lockedBuffer{}
	if _, err := compiler.builder(t, progress).ensure(t.Context(), testArtefact()); err != nil {
		t.Fatal(err)
	}
	if got := compiler.calls.Load(); got != 3 {
		t.Errorf("compiled %d times, want 3", got)
	}
	if !strings.Contains(progress.String(), "a download for etcd failed, trying again") {
		t.Errorf("progress does not mention the repetition:\n%s", progress)
	}
}

func TestDownloadIsNotRepeatedForEver(t *testing.T) {
	t.Parallel()
	refused := errors.New("429 Too Many Requests")
	compiler := &fakeCompiler{failures: []error{refused, refused, refused, refused, refused}}
	_, err := compiler.builder(t, &lockedBuffer{}).ensure(t.Context(), testArtefact())
	if !errors.Is(err, refused) {
		t.Errorf("error is %v, want %v", err, refused)
	}
	if got := compiler.calls.Load(); got != buildAttempts {
		t.Errorf("compiled %d times, want %d", got, buildAttempts)
	}
}

func TestBrokenSourceIsNotCompiledAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("undefined: foo")
	compiler := &fakeCompiler{failures: []error{broken}}
	b := compiler.builder(t, &lockedBuffer{})
	if _, err := b.ensure(t.Context(), testArtefact()); !errors.Is(err, broken) {
		t.Errorf("error is %v, want %v", err, broken)
	}
	if _, err := os.Stat(b.directory(testArtefact())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed build left something in the cache: %v", err)
	}
}

func TestMissingGoCommandIsExplained(t *testing.T) {
	t.Parallel()
	err := toolMissing(fmt.Errorf("run the go command: %w", &exec.Error{Name: "go", Err: exec.ErrNotFound}))
	for _, want := range []string{"not on the PATH", oldestGo, "https://go.dev/dl"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not mention %q", err, want)
		}
	}
}

func TestUnknownComponentIsRefusedByName(t *testing.T) {
	t.Parallel()
	_, err := EnsureBinaries(t.Context(), []string{"kubelet"}, nil)
	if err == nil || !strings.Contains(err.Error(), `"kubelet"`) {
		t.Errorf("error is %v, want one about kubelet", err)
	}
}

func TestCachedBinariesOfThePinnedVersionsAreReportedByTheComponents(t *testing.T) {
	t.Parallel()
	binaries, err := EnsureBinaries(t.Context(), []string{Kubectl, Etcd}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	client, err := exec.CommandContext(t.Context(), binaries[Kubectl], "version", "--client").Output()
	if err != nil {
		t.Fatal(err)
	}
	server, err := exec.CommandContext(t.Context(), binaries[Etcd], "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{firstLine(client), firstLine(server)}
	want := []string{"Client Version: " + kubernetesVersion, "etcd Version: " + strings.TrimPrefix(etcdVersion, "v")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func firstLine(output []byte) string {
	line, _, _ := strings.Cut(string(output), "\n")
	return line
}
