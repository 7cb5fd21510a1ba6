// Copyright The dynamo-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"fmt"
	"slices"
	"strings"
)

// releaseToolchain is the Go that releases are built with, here and in the Dockerfile. It is no line in go.mod, which would have every
// other Go of this minor fetch it, or fail where there is no network.
const releaseToolchain = "go1.26.8"

// unreleased is the version of what is built for a trial.
const unreleased = "0.0.0-dev"

// anyGo is the variable that lets a released version be built with another Go.
const anyGo = "ANY_GO"

// toolchain is what the bytes of an image depend on besides the sources.
type toolchain struct {
	// compiler is the Go that programs are built with, compressor the one that this command is, which packs them. They may differ:
	// each module chooses its own.
	compiler, compressor string
	// pinned is the one that both have to be for a release.
	pinned string
}

// compilerOf is the Go that a program was built with, which only the program itself knows for certain.
func compilerOf(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read which Go built the program: %w", err)
	}
	return info.GoVersion, nil
}

// others are those in use that are not the pinned one.
func (t toolchain) others() []string {
	all := slices.DeleteFunc([]string{t.compiler, t.compressor}, func(used string) bool { return used == t.pinned })
	return slices.Compact(all)
}

// check refuses to give a version to what differs from everybody else's build of that version.
func (t toolchain) check(version, allowed string) error {
	if others := t.others(); len(others) > 0 && version != unreleased && allowed == "" {
		return fmt.Errorf("built with %s, but releases such as %s are built with %s: use that one, or set %s=1 for images with digests of their own",
			strings.Join(others, " and "), version, t.pinned, anyGo)
	}
	return nil
}

// String says what was used, for people.
func (t toolchain) String() string {
	others := t.others()
	if len(others) == 0 {
		return "built with " + t.pinned
	}
	return fmt.Sprintf("built with %s: releases are built with %s, and digests differ from theirs", strings.Join(others, " and "), t.pinned)
}
