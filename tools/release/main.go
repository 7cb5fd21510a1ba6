// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release writes everything that a version consists of into one directory: both charts, the images, what they are made
// of, what is new, and the checksums of it all. It publishes nothing. In the repository it changes only what upgrades are tested
// from: the charts, which become those of this version, and the commit that its operator is built from.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dynamo-operator/dynamo-operator/tools/command"
)

func main() { command.Main("release", run) }

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	var r release
	flags.StringVar(&r.root, "root", "..", "root of the repository")
	directory := flags.String("out", "../dist", "directory in which to make that of the version")
	flags.StringVar(&r.version, "version", "", "version, such as 1.2.3")
	flags.StringVar(&r.repository, "repository", "", "registry and path before the names of the images")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.directory = filepath.Join(*directory, r.version)
	notes, err := r.check(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.directory); err != nil {
		return fmt.Errorf("remove an earlier try: %w", err)
	}
	if err := os.MkdirAll(r.directory, 0o755); err != nil {
		return fmt.Errorf("make the directory of the release: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.directory, "CHANGELOG.md"), []byte(notes), 0o644); err != nil {
		return fmt.Errorf("write what is new: %w", err)
	}
	if err := r.charts(ctx); err != nil {
		return err
	}
	if err := r.images(ctx, out); err != nil {
		return err
	}
	names, err := writeChecksums(r.directory)
	if err != nil {
		return err
	}
	revision, err := r.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if err := r.keep(filepath.Join(r.root, "test", "testdata", "releases"), revision); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s has\n  %s\n", r.directory, strings.Join(names, "\n  "))
	return err
}

// release is one version, and where it comes from and goes to.
type release struct {
	root, directory     string
	version, repository string
}

// check refuses what must not be released, and returns what is new in the version.
func (r release) check(ctx context.Context) (string, error) {
	if err := checkVersion(r.version); err != nil {
		return "", err
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changed != "" {
		return "", errors.New("the tree has changes that are not committed: commit or stash them first")
	}
	date, err := r.git(ctx, "log", "-1", "--format=%cs")
	if err != nil {
		return "", err
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("read what is new: %w", err)
	}
	return section(string(changelog), r.version, date)
}

func (r release) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.command(ctx, r.root, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// created is the time of the commit that is released, the only one that each build of it agrees on.
func (r release) created(ctx context.Context) (time.Time, error) {
	text, err := r.git(ctx, "log", "-1", "--format=%ct")
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the commit: %w", err)
	}
	return time.Unix(seconds, 0), nil
}

func (release) command(ctx context.Context, directory, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = directory
	cmd.Stderr = os.Stderr
	return cmd
}

// images has them written by the command that make images runs.
func (r release) images(ctx context.Context, out io.Writer) error {
	created, err := r.created(ctx)
	if err != nil {
		return err
	}
	revision, err := r.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	root, directory, err := r.absolute()
	if err != nil {
		return err
	}
	cmd := r.command(ctx, filepath.Join(root, "tools"), "go", "run", "./image", "-root", root, "-out", directory,
		"-version", r.version, "-repository", r.repository, "-revision", revision)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(created.Unix(), 10))
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build the images: %w", err)
	}
	return nil
}

func (r release) absolute() (root, directory string, err error) {
	if root, err = filepath.Abs(r.root); err != nil {
		return "", "", fmt.Errorf("find the repository: %w", err)
	}
	if directory, err = filepath.Abs(r.directory); err != nil {
		return "", "", fmt.Errorf("find the directory of the release: %w", err)
	}
	return root, directory, nil
}
